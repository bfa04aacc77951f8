// Last step of planning a gather: list the places that are written.
#pragma once

#include "gather_selection_args.h"

namespace tierkv {

// A row's list has what moves, then what comes from elsewhere, then repeats, each in the order of places.
// A core lists a query's, and counts the other queries' of the row to know where: vector work alone.
template <typename Tiling>
class GatherWork {
 public:
  __aicore__ inline GatherWork(const GatherPlanArgs &args, const Tiling &tiling)
      : g_(args), a_(args.plan), t_(tiling), n_(RoundUp(tiling.topK, kCompareHalves)) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    Init(pipe);
    const Range mine = MyShare(t_.queryEach, t_.queryMore);
    for (uint32_t unit = mine.first; unit < mine.last; ++unit) List(unit / t_.queries, unit % t_.queries);
  }

 private:
  static constexpr uint32_t kCompareHalves = 128, kClasses = 3;
  enum Class : uint32_t { kMoves, kCopies, kRepeats };

  __aicore__ inline void Init(AscendC::TPipe *pipe) {
    kind_ = Take<int8_t>(pipe, n_), half_ = Take<half>(pipe, n_);
    index_ = Take<int32_t>(pipe, n_), place_ = Take<int32_t>(pipe, n_), none_ = Take<int32_t>(pipe, n_);
    own_ = Take<int32_t>(pipe, n_), count_ = Take<int32_t>(pipe, kBlockBytes / sizeof(int32_t));
    for (uint32_t c = 0; c < kClasses; ++c) bits_[c] = Take<uint8_t>(pipe, n_ / 8), list_[c] = Take<int32_t>(pipe, n_);
    same_ = Take<uint8_t>(pipe, n_ / 8), first_ = Take<uint8_t>(pipe, n_ / 8);
    AscendC::CreateVecIndex(place_, 0, n_);
    AscendC::Duplicate(none_, -1, n_);
    AscendC::Duplicate(index_, -1, n_);
    AscendC::Duplicate(kind_.template ReinterpretCast<int16_t>(), static_cast<int16_t>(kKindEmpty), n_ / 2);
  }

  __aicore__ inline void List(uint32_t row, uint32_t query) {
    const bool elsewhere = GatherSource(g_, t_, row).elsewhere;
    uint32_t counts[kClasses], before[kClasses] = {}, all[kClasses] = {};
    Fence<AscendC::HardEvent::MTE3_V>();
    for (uint32_t i = 1; i <= t_.queries; ++i) {
      const uint32_t other = (query + i) % t_.queries;  // its own last: the lists stay
      Sort(row, other, elsewhere, counts);
      for (uint32_t c = 0; c < kClasses; ++c) {
        all[c] += counts[c];
        if (other < query) before[c] += counts[c];
      }
    }
    Fence<AscendC::HardEvent::V_MTE3>();
    __gm__ int32_t *work = g_.work + uint64_t{row} * t_.entries;
    uint32_t at = 0;
    for (uint32_t c = 0; c < kClasses; ++c) {
      if (counts[c] > 0) Store(work + at + before[c], list_[c], counts[c]);
      at += all[c];
    }
    const uint32_t rest = t_.entries - at, from = rest * query / t_.queries, to = rest * (query + 1) / t_.queries;
    if (to > from) Store(work + at + from, none_, to - from);
    if (query == 0) Count(row, at);
  }

  __aicore__ inline void Count(uint32_t row, uint32_t count) {
    Fence<AscendC::HardEvent::MTE3_S>();
    count_.SetValue(0, static_cast<int32_t>(count));
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(g_.work_count + row, count_, 1);
  }

  // Lists a query's places of each class and counts them.
  __aicore__ inline void Sort(uint32_t row, uint32_t query, bool elsewhere, uint32_t (&counts)[kClasses]) {
    const uint64_t at = uint64_t{row} * t_.entries + query * t_.topK;
    Fence<AscendC::HardEvent::V_MTE2>();
    Load(kind_, a_.kind + at, t_.topK);
    Load(index_, a_.index + at, t_.topK);
    Fence<AscendC::HardEvent::MTE2_V>();
    AscendC::Cast(half_, kind_, AscendC::RoundMode::CAST_NONE, n_);
    Equal(same_, index_, place_, n_);
    AscendC::Adds(own_, place_, static_cast<int32_t>(query * t_.topK), n_);
    AscendC::PipeBarrier<PIPE_V>();
    Compare(bits_[kMoves], AscendC::CMPMODE::EQ, kKindHit);
    Compare(bits_[kCopies], AscendC::CMPMODE::GT, kKindHit);
    Compare(bits_[kRepeats], AscendC::CMPMODE::EQ, kKindRepeat);
    Compare(first_, AscendC::CMPMODE::NE, kKindRepeat);
    Neither(same_, same_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    if (!elsewhere) Both(bits_[kMoves], bits_[kMoves], same_, n_);
    Both(bits_[kCopies], bits_[kCopies], first_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t c = 0; c < kClasses; ++c) counts[c] = Compress(list_[c], own_, bits_[c], t_.topK);
  }

  __aicore__ inline void Compare(const Bits &bits, AscendC::CMPMODE mode, int32_t kind) const {
    AscendC::CompareScalar(bits, half_, static_cast<half>(static_cast<float>(kind)), mode, n_);
  }

  const GatherPlanArgs &g_;
  const PlanArgs &a_;
  const Tiling &t_;
  uint32_t n_;  // entries of a query with padding
  AscendC::LocalTensor<int8_t> kind_;
  AscendC::LocalTensor<half> half_;
  Ints index_, place_, none_, own_, count_, list_[kClasses];
  Bits bits_[kClasses], same_, first_;
};

}  // namespace tierkv
