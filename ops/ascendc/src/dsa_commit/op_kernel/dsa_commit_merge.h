// Second half of placement: put the slots together that the parts of a lane gave.
#pragma once

#include "dsa_commit_args.h"
#include "share.h"
#include "vector.h"

namespace tierkv {

template <typename Tiling>
class CommitMerge {
 public:
  __aicore__ inline CommitMerge(const CommitArgs &args, const Tiling &tiling) : a_(args), t_(tiling) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    const uint32_t n = t_.mergeChunk;
    slots_ = Take<int32_t>(pipe, t_.parts * n);
    work_ = Take<int32_t>(pipe, n), none_ = Take<int32_t>(pipe, n), total_ = Take<int32_t>(pipe, 1);
    mask_ = Take<uint8_t>(pipe, n / 8);
    AscendC::Duplicate(none_, -1, n);
    Fence<AscendC::HardEvent::V_MTE3>();
    const Range mine = MyShare(t_.rowEach, t_.rowMore);
    for (uint32_t row = mine.first; row < mine.last; ++row) Row(row);
  }

 private:
  __aicore__ inline void Row(uint32_t row) {
    const uint64_t to = static_cast<uint64_t>(row) * t_.entries;
    const bool live = static_cast<uint32_t>(ReadGm(a_.lanes, row)) < t_.lanes;
    const uint32_t misses = live ? Least(static_cast<uint32_t>(ReadGm(a_.miss_count, row)), t_.entries) : 0;
    uint32_t kept = 0;
    for (uint32_t at = 0; at < misses; at += t_.mergeChunk) kept += Chunk(row, at, Least(misses - at, t_.mergeChunk));
    for (uint32_t at = misses; at < t_.entries; at += t_.mergeChunk) {
      Store(a_.slot + to + at, none_, Least(t_.entries - at, t_.mergeChunk));
    }
    Fence<AscendC::HardEvent::MTE3_S>();
    total_.SetValue(0, static_cast<int32_t>(kept));
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(a_.count + row, total_, 1);
  }

  // Each miss has a slot from one part at most, -1 from the others.
  __aicore__ inline uint32_t Chunk(uint32_t row, uint32_t at, uint32_t n) {
    constexpr uint32_t block = kBlockBytes / sizeof(int32_t);
    AscendC::GlobalTensor<int32_t> taken;
    taken.SetGlobalBuffer(a_.taken + static_cast<uint64_t>(row) * t_.parts * t_.takenStride + at);
    Fence<AscendC::HardEvent::MTE3_MTE2>();
    AscendC::DataCopyPad(slots_, taken,
                         AscendC::DataCopyExtParams{static_cast<uint16_t>(t_.parts),
                                                    static_cast<uint32_t>(n * sizeof(int32_t)),
                                                    static_cast<uint32_t>((t_.takenStride - n) * sizeof(int32_t)),
                                                    (t_.mergeChunk - RoundUp(n, block)) / block, 0},
                         AscendC::DataCopyPadExtParams<int32_t>{false, 0, 0, 0});
    Fence<AscendC::HardEvent::MTE2_V>();
    for (uint32_t left = t_.parts; left > 1; left = (left + 1) / 2) {
      const uint32_t half = (left + 1) / 2;
      AscendC::Max(slots_, slots_, slots_[half * t_.mergeChunk], static_cast<int32_t>((left - half) * t_.mergeChunk));
      AscendC::PipeBarrier<PIPE_V>();
    }
    AscendC::Maxs(work_, slots_, 0, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mask_, work_, slots_, n);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t kept = Compress(work_, slots_, mask_, n);
    Fence<AscendC::HardEvent::V_MTE3>();
    Store(a_.slot + static_cast<uint64_t>(row) * t_.entries + at, slots_, n);
    return kept;
  }

  const CommitArgs &a_;
  const Tiling &t_;
  Ints slots_, work_, none_, total_;
  Bits mask_;
};

}  // namespace tierkv
