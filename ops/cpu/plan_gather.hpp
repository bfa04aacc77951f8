// Give each selected record a place in its query, and list the places to be written.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan.hpp"

namespace tierkv {

struct GatherPlanArgs {
  PlanArgs plan;  // its slot_of is id_at [lanes, places]
  int first_row = 0;
  bool across = false;
  const std::int32_t* row_of = nullptr;
  std::int32_t *source = nullptr, *work = nullptr, *work_count = nullptr;
};

// One batch row, query by query; misses and work are listed at the end.
class GatherRow {
 public:
  GatherRow(const GatherPlanArgs& args, int row, PlanCounts& counts)
      : g_(args), a_(args.plan), counts_(counts), scratch_(Scratch::mine()), row_(row), lane_(a_.lanes[row]),
        mapped_(a_.block_table.columns << a_.page_bits), entries_(a_.queries * a_.top_k) {
    const std::int64_t base = std::int64_t{row} * entries_;
    ids_ = a_.out_ids + base;
    kind_ = a_.kind + base;
    index_ = a_.index + base;
    from_ = a_.miss_from + base;
    miss_id_ = a_.miss_id + base;
    work_ = g_.work + base;
    heads_ = at_least(scratch_.heads, mapped_);
    const int room = a_.top_k + 1;
    std::int32_t* memory = at_least(scratch_.order, std::max(7 * room, 2 * entries_));
    wanted_ = memory, where_ = memory + room, sort_ = memory + 2 * room, found_ = memory + 3 * room;
    next_ = memory + 4 * room, entry_at_ = memory + 5 * room, rest_ = memory + 6 * room;
  }

  // Gives the number of moves.
  std::int64_t plan() {
    const std::int32_t own = g_.first_row + row_, lies = lane_ < 0 ? -1 : g_.row_of[lane_];
    const bool mine = lies >= g_.first_row && lies < g_.first_row + a_.rows;
    const bool near = lies >= 0 && (g_.across || mine);
    g_.source[row_] = near ? lies : own;
    const bool live = lane_ >= 0 && a_.kv_len[row_] > 0;
    const int first = live ? a_.queries - a_.q_len[row_] : a_.queries;
    const std::int32_t* held = near ? a_.slot_of.row<std::int32_t>(lane_) + a_.slot_of.positions - entries_ : nullptr;
    scratch_.slots.begin(mapped_);
    for (int q = 0; q < a_.queries; ++q) {
      const int from = q * a_.top_k, to = from + a_.top_k;
      const int n = q < first ? 0 : judge_all(q);
      if (n > 0) {
        match(held == nullptr ? nullptr : held + from, n);
        arrange(from, n);
      }
      a_.length[row_ * a_.queries + q] = n;
      counts_.entries += n;
      fill_minus_one(ids_ + from + n, to - from - n);
      std::fill(kind_ + from + n, kind_ + to, static_cast<std::int8_t>(kKindEmpty));
      fill_minus_one(index_ + from + n, to - from - n);
    }
    list_misses();
    return list_work(near && lies != own);
  }

 private:
  // Ids below `plain` are visible, stable and inside the block table, which is nearly all.
  int judge_all(int q) {
    const std::int32_t* in = a_.ids + row_ * a_.ids_row + q * a_.ids_query;
    const std::int32_t position = a_.kv_len[row_] - a_.queries + q;
    const std::int32_t* pages = a_.block_table.row(row_);
    const auto plain = static_cast<std::uint32_t>(std::max<std::int64_t>(
        std::min<std::int64_t>({mapped_, a_.stable[row_], std::int64_t{position} + 1}), 0));
    int n = 0;
    for (int k = 0; k < a_.top_k; ++k) {
      const std::int32_t id = in[k];
      wanted_[n] = id;
      if (static_cast<std::uint32_t>(id) < plain) {
        const std::int32_t page = pages[id >> a_.page_bits];
        where_[n] = page < 0 ? -1 : backing_row(page, id, a_.page_bits);
        if (where_[n] >= 0) {
          sort_[n++] = kKindMiss;
          continue;
        }
      }
      const Judged judged = judge(a_, row_, id, position, counts_);
      sort_[n] = judged.kind, where_[n] = judged.index;
      n += judged.kind != kKindEmpty;
    }
    return n;
  }

  // Note for each entry the place in `held` that it is found at, plus one; zero is nowhere. Equal
  // ids form a list, lowest place first. Which entry is found no predictor can know: no branches.
  void match(const std::int32_t* held, int n) {
    std::fill(entry_at_, entry_at_ + a_.top_k + 1, -1);
    next_[0] = 0;
    for (int p = a_.top_k; held != nullptr && p > 0; --p) {
      if (static_cast<std::uint32_t>(held[p - 1]) >= mapped_) continue;
      next_[p] = heads_[held[p - 1]];
      heads_[held[p - 1]] = p;
    }
    new_ = 0;
    for (int i = 0; i < n; ++i) {
      std::int32_t& head = heads_[wanted_[i]];
      const std::int32_t found = sort_[i] == kKindMiss ? head : 0;
      head = next_[found];  // a window entry's list ends: the id is window in all the row
      found_[i] = found;
      entry_at_[found] = i;
      rest_[new_] = i;
      new_ += found == 0;
    }
    for (int p = 0; held != nullptr && p < a_.top_k; ++p) {
      if (static_cast<std::uint32_t>(held[p]) < mapped_) heads_[held[p]] = 0;
    }
  }

  // What lies below `n` stays, what lies behind takes the lowest holes, the last first.
  void arrange(int from, int n) {
    std::int32_t* rest = rest_;
    int behind = 0;
    for (int p = n + 1; p <= a_.top_k; ++p) behind += entry_at_[p] >= 0;
    if (behind > 0) {
      std::copy_backward(rest, rest + new_, rest + new_ + behind);
      for (int p = a_.top_k; p > n; --p) {
        if (entry_at_[p] >= 0) *rest++ = entry_at_[p];
      }
      rest = rest_;
    }
    std::uint8_t* marks = scratch_.slots.data();
    const std::uint8_t epoch = scratch_.slots.epoch();
    for (int p = 0; p < n; ++p) {
      const bool hole = entry_at_[p + 1] < 0;
      const int entry = hole ? *rest : entry_at_[p + 1];
      rest += hole;
      const std::int32_t id = wanted_[entry], found = found_[entry];
      ids_[from + p] = id;
      kind_[from + p] = static_cast<std::int8_t>(found > 0 ? kKindHit : sort_[entry]);
      index_[from + p] = found > 0 ? found - 1 : where_[entry];
      counts_.unique_hits += found > 0 && marks[id] != epoch;
      marks[id] = found > 0 ? epoch : marks[id];
    }
  }

  void list_misses() {
    int misses = 0, unique = 0;
    for (int place = 0; place < entries_; ++place) {
      from_[misses] = place;
      misses += kind_[place] == kKindMiss;
    }
    scratch_.first.begin(mapped_, entries_);
    for (int i = 0; i < misses; ++i) {
      const std::int32_t place = from_[i], first = scratch_.first.note(ids_[place], place);
      if (first == place) {
        from_[unique] = place;
        miss_id_[unique++] = ids_[place];
      } else {
        kind_[place] = kKindRepeat;
        index_[place] = first;
      }
    }
    counts_.misses += misses;
    a_.miss_count[row_] = unique;
    fill_minus_one(from_ + unique, entries_ - unique);
    fill_minus_one(miss_id_ + unique, entries_ - unique);
    counts_.unique_misses += unique;
  }

  // Moves, then what comes from elsewhere, then repeats.
  int list_work(bool elsewhere) {
    std::int32_t *copies = at_least(scratch_.order, 2 * entries_), *repeats = copies + entries_;
    int moved = 0, copied = 0, repeated = 0;
    for (int q = 0, place = 0; q < a_.queries; ++q) {
      for (int k = 0; k < a_.top_k; ++k, ++place) {
        const bool hit = kind_[place] == kKindHit, repeat = kind_[place] == kKindRepeat;
        work_[moved] = copies[copied] = repeats[repeated] = place;
        moved += hit & (elsewhere | (index_[place] != k));
        copied += !hit & !repeat & (kind_[place] != kKindEmpty);
        repeated += repeat;
      }
    }
    std::copy(copies, copies + copied, work_ + moved);
    std::copy(repeats, repeats + repeated, work_ + moved + copied);
    const int count = moved + copied + repeated;
    g_.work_count[row_] = count;
    fill_minus_one(work_ + count, entries_ - count);
    return moved;
  }

  const GatherPlanArgs& g_;
  const PlanArgs& a_;
  PlanCounts& counts_;
  Scratch& scratch_;
  int row_;
  std::int32_t lane_;
  std::int64_t mapped_;
  int entries_;
  std::int32_t *ids_, *index_, *from_, *miss_id_, *work_, *heads_;
  std::int32_t *wanted_, *where_, *sort_, *found_, *next_, *entry_at_, *rest_;
  int new_ = 0;
  std::int8_t* kind_;
};

// False, with nothing written, if a lane is unknown.
inline bool plan_gather(const GatherPlanArgs& g, int threads) {
  const PlanArgs& a = g.plan;
  if (!lanes_known(a.lanes, a.rows, a.slot_of.lanes)) return false;
  const std::int64_t entries = std::int64_t{a.rows} * a.queries * a.top_k;
  ThreadPool::shared().run(entries < 2 * kPlanGrain ? 1 : threads, a.rows, [&](std::int64_t row) {
    PlanCounts counts;
    add(a.counters, kCounterMoved, GatherRow(g, static_cast<int>(row), counts).plan());
    count_plan(a.counters, counts);
  });
  add(a.counters, kCounterSteps, 1);
  return true;
}

struct GatherPlaceArgs {
  int rows = 0, entries = 0, first_row = 0;
  const std::int32_t *lanes = nullptr, *ids = nullptr, *miss_from = nullptr;
  const std::int8_t* kind = nullptr;
  Matrix<std::int32_t> id_at;
  std::int32_t *row_of = nullptr, *slot = nullptr, *count = nullptr;
  std::int64_t* counters = nullptr;
};

// Note what lies where. False, with nothing written, if a lane is unknown.
inline bool place_gather(const GatherPlaceArgs& a) {
  if (!lanes_known(a.lanes, a.rows, a.id_at.rows)) return false;
  const std::int64_t places = a.id_at.columns, offset = places - a.entries;
  for (std::int64_t lane = 0; lane < a.id_at.rows; ++lane) {
    if (a.row_of[lane] < a.first_row || a.row_of[lane] >= a.first_row + a.rows) continue;
    a.row_of[lane] = -1;
    fill_minus_one(a.id_at.row(lane), places);
  }
  for (int row = 0; row < a.rows; ++row) {
    const std::int64_t base = std::int64_t{row} * a.entries;
    int count = 0;
    for (int i = 0; i < a.entries; ++i) {
      const std::int32_t from = a.miss_from[base + i];
      a.slot[base + i] = from < 0 ? -1 : static_cast<std::int32_t>(from + offset);
      count += from >= 0;
    }
    a.count[row] = count;
    add(a.counters, kCounterInstalls, count);
    if (a.lanes[row] < 0) continue;
    a.row_of[a.lanes[row]] = a.first_row + row;
    std::int32_t* held = a.id_at.row(a.lanes[row]);
    fill_minus_one(held, offset);
    for (int i = 0; i < a.entries; ++i) {
      const int kind = a.kind[base + i];
      const bool settled = kind == kKindHit || kind == kKindMiss || kind == kKindRepeat;
      held[offset + i] = settled ? a.ids[base + i] : -1;
    }
  }
  return true;
}

}  // namespace tierkv
