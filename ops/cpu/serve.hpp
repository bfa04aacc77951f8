// Put the selected rows side by side, zero behind them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "bytes.hpp"
#include "constants.hpp"
#include "thread_pool.hpp"
#include "views.hpp"

namespace tierkv {

struct ServePart {
  Rows fresh, pool, backing, out;  // [rows, queries], [lanes, slots], [backing rows], [rows, entries]
  std::size_t bytes = 0;
};

struct ServeArgs {
  int rows = 0, queries = 0, entries = 0;
  const std::int32_t* lanes = nullptr;
  const std::int8_t* kind = nullptr;
  const std::int32_t* index = nullptr;
  std::int64_t lane_count = 0, slots = 0, backing_rows = 0;
  int parts = 0;
  ServePart part[kMaxParts];
};

constexpr int kServeAhead = 12;          // rows fetched ahead; 8 to 16 are alike
constexpr int kServeChunk = 256;         // rows a thread takes at once

// Whether each entry of a row names what exists; a repeat must name a miss, which phase one serves.
inline bool servable(const ServeArgs& a, int row) {
  const std::int8_t* kind = a.kind + std::int64_t{row} * a.entries;
  const std::int32_t* index = a.index + std::int64_t{row} * a.entries;
  std::int64_t bound[8] = {};
  bound[kKindEmpty] = std::int64_t{1} << 32;
  bound[kKindHit] = a.lanes[row] < 0 ? 0 : a.slots;
  bound[kKindMiss] = bound[kKindWindow] = a.backing_rows;
  bound[kKindFresh] = a.queries;
  bound[kKindRepeat] = a.entries;
  bool good = true;
  for (int i = 0; i < a.entries; ++i) {
    const auto k = static_cast<std::uint8_t>(kind[i]);
    good &= k < 8 && static_cast<std::uint32_t>(index[i]) < bound[k & 7];
  }
  for (int i = 0; good && i < a.entries; ++i) {
    if (kind[i] == kKindRepeat) good = kind[index[i]] == kKindMiss;
  }
  return good;
}

// One part of one row's entries. Where a row comes from is a table lookup by kind, not a branch.
class Sources {
 public:
  Sources(const ServeArgs& a, const ServePart& part, int row)
      : kind_(a.kind + std::int64_t{row} * a.entries), index_(a.index + std::int64_t{row} * a.entries) {
    base_[kKindHit] = part.pool.at(std::max(a.lanes[row], 0), 0);
    step_[kKindHit] = part.pool.inner;
    base_[kKindMiss] = base_[kKindWindow] = part.backing.data;
    step_[kKindMiss] = step_[kKindWindow] = part.backing.inner;
    base_[kKindFresh] = part.fresh.at(row, 0);
    step_[kKindFresh] = part.fresh.inner;
  }

  // The row of entry `i`, or null if nothing is copied from outside the selection.
  const std::uint8_t* operator[](int i) const {
    const int kind = kind_[i];
    const std::uint8_t* base = base_[kind];
    return base + (base == nullptr ? 0 : index_[i] * step_[kind]);
  }

 private:
  const std::int8_t* kind_;
  const std::int32_t* index_;
  const std::uint8_t* base_[8] = {};
  std::int64_t step_[8] = {};
};

void serve_part(const ServeArgs& a, const ServePart& part, int row, int first, int last) {
  const Sources source(a, part, row);
  const std::int8_t* kind = a.kind + std::int64_t{row} * a.entries;
  const std::uint8_t* ahead[kServeAhead];
  const auto fetch = [&](int i) {
    ahead[i % kServeAhead] = source[i];
    if (source[i] != nullptr) prefetch_row(source[i], part.bytes);
  };
  for (int i = first; i < std::min(first + kServeAhead, last); ++i) fetch(i);
  for (int i = first; i < last; ++i) {
    const std::uint8_t* from = ahead[i % kServeAhead];
    if (i + kServeAhead < last) fetch(i + kServeAhead);
    if (from != nullptr) {
      copy_row(part.out.at(row, i), from, part.bytes);
    } else if (kind[i] == kKindEmpty) {
      zero_row(part.out.at(row, i), part.bytes);
    }
  }
}

// A repeated miss is copied from its first place, so that backing is read once.
inline void serve_repeats(const ServeArgs& a, int row) {
  const std::int8_t* kind = a.kind + std::int64_t{row} * a.entries;
  const std::int32_t* index = a.index + std::int64_t{row} * a.entries;
  for (int i = 0; i < a.entries; ++i) {
    if (kind[i] != kKindRepeat) continue;
    for (int p = 0; p < a.parts; ++p) {
      const ServePart& part = a.part[p];
      copy_row(part.out.at(row, i), part.out.at(row, index[i]), part.bytes);
    }
  }
  stream_fence();
}

// False, with nothing written, if the plan names a row that does not exist.
inline bool serve(const ServeArgs& a, int threads) {
  if (!lanes_known(a.lanes, a.rows, a.lane_count)) return false;
  for (int row = 0; row < a.rows; ++row) {
    if (!servable(a, row)) return false;
  }
  std::int64_t bytes = 0;
  for (int p = 0; p < a.parts; ++p) bytes += a.part[p].bytes * a.rows * a.entries;
  const int chunks = (a.entries + kServeChunk - 1) / kServeChunk;
  if (bytes < kParallelBytes) threads = 1;
  ThreadPool& pool = ThreadPool::shared();
  pool.run(threads, std::int64_t{a.rows} * chunks, [&](std::int64_t chunk) {
    const int row = static_cast<int>(chunk / chunks);
    const int first = static_cast<int>(chunk % chunks) * kServeChunk;
    const int last = std::min(first + kServeChunk, a.entries);
    for (int p = 0; p < a.parts; ++p) serve_part(a, a.part[p], row, first, last);
    stream_fence();
  });
  const std::int64_t total = std::int64_t{a.rows} * a.entries;
  if (std::find(a.kind, a.kind + total, kKindRepeat) != a.kind + total) {
    pool.run(threads, a.rows, [&](std::int64_t row) { serve_repeats(a, static_cast<int>(row)); });
  }
  return true;
}

}  // namespace tierkv
