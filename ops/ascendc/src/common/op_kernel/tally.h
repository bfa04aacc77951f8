// Counts that the cores of a launch make together.
#pragma once

#include "share.h"
#include "vector.h"

namespace tierkv {

// A board in GM has 64 bytes for each core. Every core puts its counts there; after a SyncAll one of them
// adds all up and on top of the counters, which nobody else touches.
class Tally {
 public:
  static constexpr uint32_t kCounts = 16;

  __aicore__ inline explicit Tally(__gm__ int32_t *board) : board_(board) {}

  template <uint32_t n>
  __aicore__ inline void Put(AscendC::TPipe *pipe, const int32_t (&counts)[n]) const {
    static_assert(n <= kCounts, "a core's part of the board is full");
    const auto block = Take<int32_t>(pipe, kCounts);
    for (uint32_t i = 0; i < kCounts; ++i) block.SetValue(i, i < n ? counts[i] : 0);
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(board_ + AscendC::GetBlockIdx() * kCounts, block, kCounts);
  }

  // Adds the sums of the first `n` counts to counters[0] and up.
  __aicore__ inline void AddTo(AscendC::TPipe *pipe, __gm__ int64_t *counters, uint32_t n) const {
    const auto cores = static_cast<uint32_t>(AscendC::GetBlockNum());
    const auto blocks = Take<int32_t>(pipe, cores * kCounts);
    const auto sums = Take<int64_t>(pipe, n);
    Load(blocks, board_, cores * kCounts);
    Load(sums, counters, n);
    Fence<AscendC::HardEvent::MTE2_V>();
    for (uint32_t left = cores; left > 1; left = (left + 1) / 2) {
      const uint32_t half = (left + 1) / 2;
      AscendC::Add(blocks, blocks, blocks[half * kCounts], static_cast<int32_t>((left - half) * kCounts));
      AscendC::PipeBarrier<PIPE_V>();
    }
    Fence<AscendC::HardEvent::V_S>();
    for (uint32_t i = 0; i < n; ++i) sums.SetValue(i, sums.GetValue(i) + blocks.GetValue(i));
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(counters, sums, n);
  }

 private:
  __gm__ int32_t *board_;
};

}  // namespace tierkv
