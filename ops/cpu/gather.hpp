// Bring a selection buffer from the last selection to this one, in place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bytes.hpp"
#include "constants.hpp"
#include "thread_pool.hpp"
#include "views.hpp"

namespace tierkv {

// Records of bytes [buffer rows, queries, places], strides in bytes.
struct Places {
  std::uint8_t* data = nullptr;
  std::int64_t row = 0, query = 0, place = 0;

  std::uint8_t* at(std::int64_t r, std::int64_t q, std::int64_t p) const {
    return data + r * row + q * query + p * place;
  }
};

struct GatherPart {
  Rows fresh, backing;  // [rows, queries], [backing rows]
  Places buffer;        // of this batch's queries
  std::size_t bytes = 0;
};

struct GatherArgs {
  int rows = 0, queries = 0, top_k = 0, first_row = 0;
  const std::int8_t* kind = nullptr;
  const std::int32_t *index = nullptr, *length = nullptr, *source = nullptr;
  const std::int32_t *work = nullptr, *work_count = nullptr;
  std::int64_t buffer_rows = 0, buffer_queries = 0, backing_rows = 0;
  std::int32_t* filled = nullptr;  // [buffer rows, buffer queries]
  int parts = 0;
  GatherPart part[kMaxParts];

  int entries() const { return queries * top_k; }
};

constexpr int kGatherAhead = 12;
constexpr int kGatherChunk = 256;

// One row of the batch and its part of the work list: moves, copies, repeats.
class Gathering {
 public:
  Gathering(const GatherArgs& args, int row)
      : a_(args), row_(row), own_(args.first_row + row), source_(args.source[row]),
        kind_(args.kind + std::int64_t{row} * args.entries()), index_(args.index + std::int64_t{row} * args.entries()),
        work_(args.work + std::int64_t{row} * args.entries()), count_(args.work_count[row]) {}

  // Whether the list names what exists, and says how far moves and copies reach.
  bool split() {
    if (count_ < 0 || count_ > a_.entries() || source_ < 0 || source_ >= a_.buffer_rows) return false;
    std::int64_t bound[8] = {};
    bound[kKindHit] = a_.top_k;
    bound[kKindMiss] = bound[kKindWindow] = a_.backing_rows;
    bound[kKindFresh] = a_.queries;
    bound[kKindRepeat] = a_.entries();
    constexpr int kTurn[8] = {3, 0, 1, 2, 1, 1, 3, 3};
    static_assert(kKindHit == 1 && kKindMiss == 2 && kKindRepeat == 3 && kKindWindow == 4 && kKindFresh == 5, "");
    bool good = true;
    int turn = 0;
    for (int i = 0; good && i < count_; ++i) {
      good = static_cast<std::uint32_t>(work_[i]) < static_cast<std::uint32_t>(a_.entries());
      if (!good) break;
      const int kind = kind_[work_[i]] & 7;
      good = static_cast<std::uint32_t>(index_[work_[i]]) < bound[kind] && kTurn[kind] >= turn;
      good = good && (kind != kKindRepeat || kind_[index_[work_[i]]] == kKindMiss);
      turn = kTurn[kind];
      moves_ += turn == 0;
      copies_ += turn <= 1;
    }
    for (int q = 0; q < a_.queries; ++q) good = good && length(q) >= 0 && length(q) <= a_.top_k;
    return good;
  }

  int own() const { return own_; }
  int source() const { return source_; }
  int moves() const { return moves_; }
  int copies() const { return copies_ - moves_; }
  bool wanders() const { return moves_ > 0 && source_ != own_; }

  void open() const {
    for (int q = 0; q < a_.queries; ++q) filled(q) = std::max(filled(q), length(q));
  }

  void move() const {
    for (int i = 0; i < moves_; ++i) {
      for (int p = 0; p < a_.parts; ++p) copy_row(to(p, work_[i]), from(p, work_[i]), a_.part[p].bytes);
    }
  }

  // The same in two halves, where another row's records must leave first.
  void take(std::vector<std::uint8_t>& staging) const {
    std::size_t size = 0;
    for (int p = 0; p < a_.parts; ++p) size += a_.part[p].bytes * moves_;
    staging.resize(size);
    std::uint8_t* at = staging.data();
    for (int i = 0; i < moves_; ++i) {
      for (int p = 0; p < a_.parts; at += a_.part[p++].bytes) std::memcpy(at, from(p, work_[i]), a_.part[p].bytes);
    }
  }

  void put(const std::vector<std::uint8_t>& staging) const {
    const std::uint8_t* at = staging.data();
    for (int i = 0; i < moves_; ++i) {
      for (int p = 0; p < a_.parts; at += a_.part[p++].bytes) copy_row(to(p, work_[i]), at, a_.part[p].bytes);
    }
  }

  void copy(int first, int last) const {
    const std::int32_t* list = work_ + moves_;
    for (int p = 0; p < a_.parts; ++p) {
      const GatherPart& part = a_.part[p];
      for (int i = first; i < std::min(first + kGatherAhead, last); ++i) prefetch_row(outside(part, list[i]), part.bytes);
      for (int i = first; i < last; ++i) {
        if (i + kGatherAhead < last) prefetch_row(outside(part, list[i + kGatherAhead]), part.bytes);
        copy_row(to(p, list[i]), outside(part, list[i]), part.bytes);
      }
    }
  }

  // Repeats, and zeros behind what was selected.
  void close() const {
    for (int p = 0; p < a_.parts; ++p) {
      for (int i = copies_; i < count_; ++i) copy_row(to(p, work_[i]), to(p, index_[work_[i]]), a_.part[p].bytes);
    }
    for (int q = 0; q < a_.queries; ++q) {
      for (int p = 0; p < a_.parts; ++p) {
        for (int k = length(q); k < filled(q); ++k) zero_row(to(p, q * a_.top_k + k), a_.part[p].bytes);
      }
      filled(q) = length(q);
    }
  }

 private:
  int length(int q) const { return a_.length[row_ * a_.queries + q]; }

  std::int32_t& filled(int q) const {
    return a_.filled[own_ * a_.buffer_queries + a_.buffer_queries - a_.queries + q];
  }

  std::uint8_t* to(int part, int place) const {
    return a_.part[part].buffer.at(own_, place / a_.top_k, place % a_.top_k);
  }

  const std::uint8_t* from(int part, int place) const {
    return a_.part[part].buffer.at(source_, place / a_.top_k, index_[place]);
  }

  const std::uint8_t* outside(const GatherPart& part, int place) const {
    return kind_[place] == kKindFresh ? part.fresh.at(row_, index_[place]) : part.backing.at(0, index_[place]);
  }

  const GatherArgs& a_;
  int row_, own_, source_;
  const std::int8_t* kind_;
  const std::int32_t *index_, *work_;
  int count_, moves_ = 0, copies_ = 0;
};

// Records that change their row: each row once its own have left. Where rows go in a circle, one
// row's are set aside.
inline void move_rows(std::vector<const Gathering*>& waiting) {
  std::vector<std::uint8_t> staging;
  const Gathering* aside = nullptr;
  while (!waiting.empty()) {
    const auto reads = [&](const Gathering* other, int row) { return other != aside && other->source() == row; };
    const auto free = [&](const Gathering* one) {
      return std::none_of(waiting.begin(), waiting.end(), [&](auto* other) { return reads(other, one->own()); });
    };
    const auto next = std::find_if(waiting.begin(), waiting.end(), free);
    if (next == waiting.end()) {
      aside = *std::find_if(waiting.begin(), waiting.end(), [&](auto* other) { return reads(other, waiting[0]->own()); });
      aside->take(staging);
      continue;
    }
    *next == aside ? (*next)->put(staging) : (*next)->move();
    waiting.erase(next);
  }
}

// False, with nothing written, if the plan names what does not exist.
inline bool gather(const GatherArgs& a, int threads) {
  std::vector<Gathering> rows;
  rows.reserve(a.rows);
  std::vector<bool> read(a.buffer_rows);
  int most = 0;
  std::int64_t copies = 0, bytes = 0;
  for (int row = 0; row < a.rows; ++row) {
    Gathering& one = rows.emplace_back(a, row);
    if (!one.split()) return false;
    if (one.moves() > 0) {
      if (read[one.source()]) return false;  // two lanes in one row: no policy says so
      read[one.source()] = true;
    }
    most = std::max(most, one.copies());
    copies += one.copies();
  }
  std::vector<const Gathering*> waiting;
  for (const Gathering& one : rows) {
    one.open();
    if (one.wanders()) {
      waiting.push_back(&one);
    } else {
      one.move();
    }
  }
  move_rows(waiting);
  stream_fence();
  for (int p = 0; p < a.parts; ++p) bytes += a.part[p].bytes * copies;
  if (bytes < kParallelBytes) threads = 1;
  const int chunks = (most + kGatherChunk - 1) / kGatherChunk;
  ThreadPool& pool = ThreadPool::shared();
  pool.run(threads, std::int64_t{a.rows} * chunks, [&](std::int64_t chunk) {
    const Gathering& one = rows[chunk / chunks];
    const int first = static_cast<int>(chunk % chunks) * kGatherChunk;
    one.copy(first, std::min(first + kGatherChunk, one.copies()));
    stream_fence();
  });
  pool.run(threads, a.rows, [&](std::int64_t row) {
    rows[row].close();
    stream_fence();
  });
  return true;
}

}  // namespace tierkv
