// Say where every selected record is: classify, compact, list the unique misses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "constants.hpp"
#include "scratch.hpp"
#include "thread_pool.hpp"
#include "views.hpp"

namespace tierkv {

struct PlanArgs {
  int rows = 0, queries = 0, top_k = 0;
  const std::int32_t* ids = nullptr;  // [rows, queries, top_k] with the two strides below
  std::int64_t ids_row = 0, ids_query = 0;
  const std::int32_t *lanes = nullptr, *kv_len = nullptr, *q_len = nullptr, *stable = nullptr;
  Matrix<std::int32_t> block_table;
  int page_bits = 0;
  SlotTable slot_of;
  std::int32_t* out_ids = nullptr;
  std::int8_t* kind = nullptr;
  std::int32_t *index = nullptr, *length = nullptr;
  std::int32_t *miss_id = nullptr, *miss_from = nullptr, *miss_count = nullptr;
  std::int64_t* counters = nullptr;
};

struct PlanCounts {
  std::int64_t entries = 0, misses = 0, window = 0, fresh = 0, future = 0, unmapped = 0;
  std::int64_t unique_hits = 0, unique_misses = 0;

  std::int64_t hits() const { return entries - misses - window - fresh; }

  void operator+=(const PlanCounts& n) {
    entries += n.entries, misses += n.misses, window += n.window, fresh += n.fresh;
    future += n.future, unmapped += n.unmapped;
    unique_hits += n.unique_hits, unique_misses += n.unique_misses;
  }
};

inline std::int32_t backing_row(std::int32_t page, std::int32_t id, int page_bits) {
  const auto first = static_cast<std::uint32_t>(page) << page_bits;
  return static_cast<std::int32_t>(first | (static_cast<std::uint32_t>(id) & ((1u << page_bits) - 1)));
}

struct Judged {
  int kind = kKindEmpty;
  std::int32_t index = -1;
};

// Any one id, by the book; what may turn out to be a hit is a miss.
inline Judged judge(const PlanArgs& a, int row, std::int32_t id, std::int32_t position, PlanCounts& counts) {
  if (id < 0) return {};
  if (id > position) return ++counts.future, Judged{};
  const std::int64_t mapped = a.block_table.columns << a.page_bits;
  const std::int32_t page = id < mapped ? a.block_table.row(row)[id >> a.page_bits] : -1;
  const std::int32_t far = page < 0 ? -1 : backing_row(page, id, a.page_bits);
  if (far < 0) return ++counts.unmapped, Judged{};
  if (id < a.stable[row]) return {kKindMiss, far};
  if (id < a.kv_len[row] - a.q_len[row]) return ++counts.window, Judged{kKindWindow, far};
  return ++counts.fresh, Judged{kKindFresh, id - (a.kv_len[row] - a.queries)};
}

// One batch row. Its queries are classified one by one; `miss_from` first holds every miss and is
// then thinned out to the unique ones.
template <class Slot>
class PlanRow {
 public:
  PlanRow(const PlanArgs& args, int row, PlanCounts& counts)
      : a_(args), counts_(counts), scratch_(Scratch::mine()), row_(row), lane_(args.lanes[row]),
        start_(args.kv_len[row] - args.queries), pages_(args.block_table.row(row)),
        mapped_(args.block_table.columns << args.page_bits), page_bits_(args.page_bits),
        slot_of_(lane_ < 0 ? nullptr : args.slot_of.row<Slot>(lane_)) {
    const std::int64_t base = std::int64_t{row} * args.queries * args.top_k;
    ids_ = args.out_ids + base;
    kind_ = args.kind + base;
    index_ = args.index + base;
    from_ = args.miss_from + base;
    miss_id_ = args.miss_id + base;
  }

  void plan() {
    const bool live = lane_ >= 0 && a_.kv_len[row_] > 0;
    const int first = live ? a_.queries - a_.q_len[row_] : a_.queries;
    if (live) begin();
    for (int q = 0; q < a_.queries; ++q) {
      const int from = q * a_.top_k, to = from + a_.top_k;
      const int end = q < first ? from : classify(query(q), start_ + q, from);
      a_.length[row_ * a_.queries + q] = end - from;
      counts_.entries += end - from;
      fill_minus_one(ids_ + end, to - end);
      std::fill(kind_ + end, kind_ + to, static_cast<std::int8_t>(kKindEmpty));
      fill_minus_one(index_ + end, to - end);
    }
    list_misses();
  }

 private:
  static constexpr bool kNarrow = sizeof(Slot) == 2;

  // The tables do not say how many slots there are, so the marks grow to what is met. Misses mark
  // the last place, which is marked to begin with: then no branch is needed to tell new hits. For
  // narrow tables that place is -1 as an unsigned number.
  void begin() {
    scratch_.slots.begin(std::int64_t{1} << 16);
    scratch_.slots.add(kNarrow ? 0xffff : scratch_.slots.size() - 1);
    pages_whole_ = all_mapped();
  }

  void mark_up_to(std::int32_t slot) {
    if (!kNarrow && slot + std::int64_t{2} > scratch_.slots.size()) {
      scratch_.slots.grow(slot + std::int64_t{2});
      scratch_.slots.add(scratch_.slots.size() - 1);
    }
  }

  // Whether no stable position lacks a page; false also if looking costs more than it saves.
  bool all_mapped() const {
    const std::int64_t positions = std::min<std::int64_t>(a_.stable[row_], mapped_);
    const std::int64_t pages = (positions >> page_bits_) + (positions % (1 << page_bits_) != 0);
    if (pages > 4 * std::int64_t{a_.queries} * a_.top_k) return false;
    std::int32_t signs = 0;
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < pages; ++i) signs |= pages_[i];
    return signs >= 0;
  }

  const std::int32_t* query(int q) const { return a_.ids + row_ * a_.ids_row + q * a_.ids_query; }

  // Write the valid entries of one query at `n` and up, give the end. Ids below `plain` are
  // visible, stable and inside both tables: nearly all, and they come in long runs.
  int classify(const std::int32_t* in, std::int32_t position, int n) {
    const std::int64_t bound = std::min<std::int64_t>(
        {mapped_, a_.slot_of.positions, a_.stable[row_], std::int64_t{position} + 1});
    const auto plain = static_cast<std::uint32_t>(std::max<std::int64_t>(bound, 0));
    for (int k = 0; k < a_.top_k;) {
      const int run = run_length(in + k, a_.top_k - k, plain);
      if (run == 0) {
        n += classify_one(in[k++], position, n);
      } else if (look_up(in + k, run, n)) {
        classify_run(run, n);
        k += run;
        n += run;
      } else {  // a page is missing somewhere in the run
        for (const int end = k + run; k < end; ++k) n += classify_one(in[k], position, n);
      }
    }
    return n;
  }

  static int run_length(const std::int32_t* in, int count, std::uint32_t plain) {
    constexpr int kStride = 16;
    int n = 0;
    for (bool odd = false; n + kStride <= count; n += kStride) {
      for (int i = 0; i < kStride; ++i) odd |= static_cast<std::uint32_t>(in[n + i]) >= plain;
      if (odd) break;
    }
    while (n < count && static_cast<std::uint32_t>(in[n]) < plain) ++n;
    return n;
  }

  // Note ids and slots of a run; false if one of them has no page. Local copies here and below,
  // because stores of bytes may alias any member.
  bool look_up(const std::int32_t* in, int run, int n) {
    std::int32_t *ids = ids_ + n, *index = index_ + n;
    const Slot* slot_of = slot_of_;
    std::int32_t top = 0, signs = 0;
    for (int i = 0; i < run; ++i) {
      const std::int32_t id = in[i], slot = slot_of[id];
      ids[i] = id;
      index[i] = slot;
      if (!kNarrow) top = std::max(top, slot);
    }
    mark_up_to(top);
    for (int i = 0; !pages_whole_ && i < run; ++i) signs |= pages_[ids[i] >> page_bits_];
    return signs >= 0;
  }

  // Hit or miss, by the slots in `index`; misses go to the end of `from_` and `miss_id_`. No branch depends on one entry: no predictor can know.
  void classify_run(int run, int n) {
    std::int8_t* kind = kind_ + n;
    std::int32_t* index = index_ + n;
    for (int i = 0; i < run; ++i) kind[i] = static_cast<std::int8_t>(kKindHit - (index[i] >> 31));
    mark_hits(index, run);
    const int old = misses_;
    collect_misses(kind, run, n);
    for (int i = old; i < misses_; ++i) {
      const std::int32_t place = from_[i], id = ids_[place];
      miss_id_[i] = id;
      index_[place] = backing_row(pages_[id >> page_bits_], id, page_bits_);
    }
  }

  void mark_hits(const std::int32_t* index, int run) {
    std::uint8_t* marks = scratch_.slots.data();
    const std::uint8_t epoch = scratch_.slots.epoch();
    const auto last = static_cast<std::uint32_t>(scratch_.slots.size() - 1);
    std::int64_t unique = 0;
#pragma GCC unroll 8
    for (int i = 0; i < run; ++i) {
      const auto slot = static_cast<std::uint32_t>(index[i]);
      const std::uint32_t mark = kNarrow ? slot & 0xffff : std::min(slot, last);
      unique += marks[mark] != epoch;
      marks[mark] = epoch;
    }
    counts_.unique_hits += unique;
  }

  // Eight kinds at a time: most words of a warm pool hold no miss.
  void collect_misses(const std::int8_t* kind, int run, int n) {
    static_assert(kKindHit == 1 && kKindMiss == 2, "bit 1 tells a miss from a hit");
    int i = 0, misses = misses_;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; i + 8 <= run; i += 8) {
      std::uint64_t word;
      std::memcpy(&word, kind + i, sizeof word);
      for (word &= 0x0202020202020202; word != 0; word &= word - 1) {
        from_[misses++] = n + i + __builtin_ctzll(word) / 8;
      }
    }
#endif
    for (; i < run; ++i) {
      if (kind[i] == kKindMiss) from_[misses++] = n + i;
    }
    misses_ = misses;
  }

  // Whether an entry was written at `n`.
  bool classify_one(std::int32_t id, std::int32_t position, int n) {
    const Judged judged = judge(a_, row_, id, position, counts_);
    if (judged.kind == kKindEmpty) return false;
    ids_[n] = id;
    kind_[n] = static_cast<std::int8_t>(judged.kind);
    index_[n] = judged.index;
    if (judged.kind != kKindMiss) return true;
    index_[n] = id < a_.slot_of.positions ? slot_of_[id] : -1;
    mark_up_to(index_[n]);
    classify_run(1, n);
    return true;
  }

  // Thin the misses out to the unique ones. Usually all are: one bit a position tells, and stays in
  // the first caches where a place for each position would not.
  void list_misses() {
    const int unique = all_unique() ? misses_ : drop_repeats(), entries = a_.queries * a_.top_k;
    a_.miss_count[row_] = unique;
    fill_minus_one(from_ + unique, entries - unique);
    fill_minus_one(miss_id_ + unique, entries - unique);
    counts_.misses += misses_;
    counts_.unique_misses += unique;
  }

  bool all_unique() {
    std::uint64_t* bits = at_least(scratch_.seen, std::max(mapped_, a_.slot_of.positions) / 64 + 1);
    std::uint64_t twice = 0;
    for (int i = 0; i < misses_; ++i) {
      std::uint64_t& word = bits[miss_id_[i] >> 6];
      twice |= word >> (miss_id_[i] & 63);
      word |= std::uint64_t{1} << (miss_id_[i] & 63);
    }
    for (int i = 0; i < misses_; ++i) bits[miss_id_[i] >> 6] = 0;
    return (twice & 1) == 0;
  }

  int drop_repeats() {
    constexpr int kAhead = 8;
    scratch_.first.begin(std::max(mapped_, a_.slot_of.positions), a_.queries * a_.top_k);
    int unique = 0;
    for (int i = 0; i < misses_; ++i) {
      if (i + kAhead < misses_) scratch_.first.prefetch(miss_id_[i + kAhead]);
      const std::int32_t place = from_[i], id = miss_id_[i];
      const std::int32_t first = scratch_.first.note(id, place);
      if (first == place) {
        from_[unique] = place;
        miss_id_[unique++] = id;
      } else {
        kind_[place] = kKindRepeat;
        index_[place] = first;
      }
    }
    return unique;
  }

  const PlanArgs& a_;
  PlanCounts& counts_;
  Scratch& scratch_;
  int row_;
  std::int32_t lane_, start_;  // start: the position of query 0
  const std::int32_t* pages_;
  std::int64_t mapped_;
  int page_bits_;
  bool pages_whole_ = false;
  const Slot* slot_of_;
  std::int32_t *ids_, *index_, *from_, *miss_id_;
  std::int8_t* kind_;
  int misses_ = 0;
};

inline void add(std::int64_t* counters, int counter, std::int64_t amount) {
  __atomic_fetch_add(counters + counter, amount, __ATOMIC_RELAXED);
}

inline void count_plan(std::int64_t* counters, const PlanCounts& n) {
  add(counters, kCounterHits, n.hits());
  add(counters, kCounterMisses, n.misses);
  add(counters, kCounterWindow, n.window + n.fresh);
  add(counters, kCounterFuture, n.future);
  add(counters, kCounterUnmapped, n.unmapped);
  add(counters, kCounterUniqueHits, n.unique_hits);
  add(counters, kCounterUniqueMisses, n.unique_misses);
  add(counters, kCounterFetched, n.unique_misses + n.window);
}

// Waking a thread takes as long as planning this many entries.
constexpr std::int64_t kPlanGrain = 16 * 1024;

// False, with nothing written, if a lane is unknown.
inline bool plan(const PlanArgs& a, int threads) {
  if (!lanes_known(a.lanes, a.rows, a.slot_of.lanes)) return false;
  const std::int64_t entries = std::int64_t{a.rows} * a.queries * a.top_k;
  ThreadPool::shared().run(entries < 2 * kPlanGrain ? 1 : threads, a.rows, [&](std::int64_t row) {
    PlanCounts counts;
    if (a.slot_of.wide) {
      PlanRow<std::int32_t>(a, static_cast<int>(row), counts).plan();
    } else {
      PlanRow<std::int16_t>(a, static_cast<int>(row), counts).plan();
    }
    count_plan(a.counters, counts);
  });
  add(a.counters, kCounterSteps, 1);
  return true;
}

}  // namespace tierkv
