// Note what lies where once a plan has been gathered.
#pragma once

#include "share.h"
#include "sync.h"
#include "tierkv_constants.h"
#include "vector.h"

namespace tierkv {

struct PlaceGatherArgs {
  __gm__ int32_t *lanes, *ids;
  __gm__ int8_t *kind;
  __gm__ int32_t *missFrom, *idAt, *rowOf, *slot, *count;
  __gm__ int64_t *counters;
};

// Cores share the lanes, of which they clear those that are gone, and the rows, whose lanes they write.
// No lane is both. `rowOf`, which all have read by then, and the sums are written by the first core.
template <typename Tiling>
class PlaceGather {
 public:
  __aicore__ inline PlaceGather(const PlaceGatherArgs &args, const Tiling &tiling) : a_(args), t_(tiling) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    Open(pipe);
    const Range lanes = MyShare(t_.laneEach, t_.laneMore), rows = MyShare(t_.rowEach, t_.rowMore);
    for (uint32_t lane = lanes.first; lane < lanes.last; ++lane) {
      if (Gone(lane)) Store(a_.idAt + uint64_t{lane} * t_.places, nothing_, t_.places);
    }
    for (uint32_t row = rows.first; row < rows.last; ++row) Settle(row, row - rows.first);
    Fence<AscendC::HardEvent::S_MTE3>();
    if (rows.first < rows.last) Store(a_.count + rows.first, count_, rows.last - rows.first);
    AscendC::SyncAll<true>();
    if (AscendC::GetBlockIdx() == 0) WriteRows();
    if (AscendC::GetBlockIdx() == 0) Sum();
  }

 private:
  static constexpr uint32_t kCompareHalves = 128, kBlockInts = kBlockBytes / sizeof(int32_t);

  __aicore__ inline void Open(AscendC::TPipe *pipe) {
    const uint32_t entries = RoundUp(t_.entries, kCompareHalves);
    ids_ = Take<int32_t>(pipe, entries);
    from_ = Take<int32_t>(pipe, entries);
    slot_ = Take<int32_t>(pipe, entries);
    nothing_ = Take<int32_t>(pipe, RoundUp(t_.places, kCompareHalves));
    kind_ = Take<int8_t>(pipe, entries);
    wide_ = Take<half>(pipe, entries);
    bits_ = Take<uint8_t>(pipe, entries / 8);
    lanes_ = Take<int32_t>(pipe, RoundUp(t_.rows, kBlockInts));
    rowOf_ = Take<int32_t>(pipe, RoundUp(t_.lanes, kBlockInts));
    count_ = Take<int32_t>(pipe, RoundUp(t_.rows, kBlockInts));
    sums_ = Take<int64_t>(pipe, RoundUp(kCounterCount, kBlockInts));
    Load(lanes_, a_.lanes, t_.rows);
    Load(rowOf_, a_.rowOf, t_.lanes);
    AscendC::Duplicate(nothing_, int32_t{-1}, RoundUp(t_.places, kCompareHalves));
    Fence<AscendC::HardEvent::MTE2_S>();
    Fence<AscendC::HardEvent::V_MTE3>();
  }

  // Row of the batch that held the lane; any other number if it lay elsewhere.
  __aicore__ inline uint32_t OldRow(uint32_t lane) const {
    return static_cast<uint32_t>(rowOf_.GetValue(lane)) - static_cast<uint32_t>(t_.firstRow);
  }

  // Whether a lane lay in one of the batch's rows, but is not in the batch.
  __aicore__ inline bool Gone(uint32_t lane) const {
    const uint32_t old = OldRow(lane);
    if (old >= t_.rows) return false;
    const auto number = static_cast<int32_t>(lane);
    if (lanes_.GetValue(old) == number) return false;  // as nearly always
    for (uint32_t row = 0; row < t_.rows; ++row) {
      if (lanes_.GetValue(row) == number) return false;
    }
    return true;
  }

  __aicore__ inline void Settle(uint32_t row, uint32_t turn) {
    const uint64_t at = uint64_t{row} * t_.entries;
    const int32_t lane = lanes_.GetValue(row);
    Fence<AscendC::HardEvent::MTE3_MTE2>();  // and so after what the vector unit did before it
    Load(from_, a_.missFrom + at, t_.entries);
    Load(ids_, a_.ids + at, t_.entries);
    Load(kind_, a_.kind + at, t_.entries);
    Fence<AscendC::HardEvent::MTE2_V>();
    count_.SetValue(turn, static_cast<int32_t>(Slots()));
    if (lane >= 0) Held();
    Fence<AscendC::HardEvent::V_MTE3>();
    Store(a_.slot + at, slot_, t_.entries);
    if (lane < 0) return;
    __gm__ int32_t *held = a_.idAt + uint64_t{static_cast<uint32_t>(lane)} * t_.places;
    if (Offset() > 0) Store(held, nothing_, Offset());
    Store(held + Offset(), ids_, t_.entries);
  }

  // A place of a lane is counted from its first query, which the batch may not have.
  __aicore__ inline uint32_t Offset() const { return t_.places - t_.entries; }

  // Turn where misses come from into slots; gives how many there are.
  __aicore__ inline uint32_t Slots() {
    AscendC::Adds(slot_, from_, static_cast<int32_t>(Offset()), t_.entries);
    Equal(bits_, from_, nothing_, t_.entries);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(slot_, bits_, nothing_, slot_, t_.entries);
    return t_.entries - Compress(from_, from_, bits_, t_.entries);
  }

  // Keep in `ids_` those that may be found again: hits, misses and repeats.
  __aicore__ inline void Held() {
    static_assert(kKindHit == 1 && kKindMiss == 2 && kKindRepeat == 3, "what is next to a miss is settled");
    const auto middle = static_cast<half>(static_cast<float>(kKindMiss));
    AscendC::Cast(wide_, kind_, AscendC::RoundMode::CAST_NONE, t_.entries);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(wide_, wide_, static_cast<half>(-static_cast<float>(middle)), t_.entries);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Abs(wide_, wide_, t_.entries);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::CompareScalar(bits_, wide_, static_cast<half>(1.0f), AscendC::CMPMODE::LE,
                           RoundUp(t_.entries, kCompareHalves));
    AscendC::PipeBarrier<PIPE_V>();
    Choose(ids_, bits_, ids_, nothing_, t_.entries);
  }

  __aicore__ inline void WriteRows() {
    for (uint32_t lane = 0; lane < t_.lanes; ++lane) {
      if (OldRow(lane) < t_.rows) rowOf_.SetValue(lane, -1);
    }
    for (uint32_t row = 0; row < t_.rows; ++row) {
      const int32_t lane = lanes_.GetValue(row);
      if (lane >= 0) rowOf_.SetValue(lane, t_.firstRow + static_cast<int32_t>(row));
    }
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(a_.rowOf, rowOf_, t_.lanes);
  }

  __aicore__ inline void Sum() {
    Load(count_, a_.count, t_.rows);
    Load(sums_, a_.counters, kCounterCount);
    Fence<AscendC::HardEvent::MTE2_S>();
    int64_t sum = sums_.GetValue(kCounterInstalls);
    for (uint32_t row = 0; row < t_.rows; ++row) sum += count_.GetValue(row);
    sums_.SetValue(kCounterInstalls, sum);
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(a_.counters, sums_, kCounterCount);
  }

  const PlaceGatherArgs &a_;
  const Tiling &t_;
  Ints ids_, from_, slot_, nothing_, lanes_, rowOf_, count_;
  AscendC::LocalTensor<int8_t> kind_;
  AscendC::LocalTensor<half> wide_;
  AscendC::LocalTensor<int64_t> sums_;
  Bits bits_;
};

}  // namespace tierkv
