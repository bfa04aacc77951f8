// Copy placed misses from the selection into the pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include "bytes.hpp"
#include "thread_pool.hpp"
#include "views.hpp"

namespace tierkv {

struct InstallPart {
  Rows selection, pool;  // [rows, entries], [lanes, slots]
  std::size_t bytes = 0;
};

struct InstallArgs {
  int rows = 0, entries = 0;
  const std::int32_t *lanes = nullptr, *miss_from = nullptr, *miss_count = nullptr, *slot = nullptr;
  std::int64_t lane_count = 0, slots = 0;
  int parts = 0;
  InstallPart part[kMaxParts];
};

constexpr int kInstallAhead = 8;
constexpr int kInstallChunk = 256;

inline bool installable(const InstallArgs& a, int row) {
  const std::int64_t base = std::int64_t{row} * a.entries;
  if (a.miss_count[row] > a.entries) return false;
  bool good = true;
  for (int i = 0; i < a.miss_count[row]; ++i) {
    const std::int32_t slot = a.slot[base + i];
    const auto from = static_cast<std::uint32_t>(a.miss_from[base + i]);
    good &= slot < 0 || (slot < a.slots && from < static_cast<std::uint32_t>(a.entries));
    good &= slot < 0 || a.lanes[row] >= 0;
  }
  return good;
}

inline void install_part(const InstallArgs& a, const InstallPart& part, int row, int first, int last) {
  const std::int32_t* slot = a.slot + std::int64_t{row} * a.entries;
  const std::int32_t* from = a.miss_from + std::int64_t{row} * a.entries;
  for (int i = first; i < last; ++i) {
    if (i + kInstallAhead < last && slot[i + kInstallAhead] >= 0) {
      prefetch_row(part.selection.at(row, from[i + kInstallAhead]), part.bytes);
    }
    if (slot[i] < 0) continue;
    copy_row(part.pool.at(a.lanes[row], slot[i]), part.selection.at(row, from[i]), part.bytes);
  }
}

// False, with nothing written, if a slot, lane or entry does not exist. A row's slots are distinct
// (a Placement guarantees it), so chunks may run in any order.
inline bool install(const InstallArgs& a, int threads) {
  if (!lanes_known(a.lanes, a.rows, a.lane_count)) return false;
  int most = 0;
  std::int64_t bytes = 0;
  for (int row = 0; row < a.rows; ++row) {
    if (!installable(a, row)) return false;
    most = std::max(most, a.miss_count[row]);
    for (int p = 0; p < a.parts; ++p) bytes += a.part[p].bytes * std::max(a.miss_count[row], 0);
  }
  if (bytes < kParallelBytes) threads = 1;
  const int chunks = (most + kInstallChunk - 1) / kInstallChunk;
  ThreadPool::shared().run(threads, std::int64_t{a.rows} * chunks, [&](std::int64_t chunk) {
    const int row = static_cast<int>(chunk / chunks);
    const int first = static_cast<int>(chunk % chunks) * kInstallChunk;
    const int last = std::min(first + kInstallChunk, a.miss_count[row]);
    for (int p = 0; p < a.parts; ++p) install_part(a, a.part[p], row, first, last);
    stream_fence();
  });
  return true;
}

}  // namespace tierkv
