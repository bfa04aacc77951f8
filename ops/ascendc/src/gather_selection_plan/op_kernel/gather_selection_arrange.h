// Give each valid entry of a query a place.
#pragma once

#include "gather_selection_match.h"
#include "judge.h"

namespace tierkv {

// What was found below the number of valid entries stays. What was found behind takes the lowest holes, the
// last first, and what is new the other holes in the order given.
class GatherArrange {
 public:
  // How many entries there are of each kind; `behind` of the hits lay behind the others.
  struct Counts {
    int32_t hits, misses, window, fetched, behind;
  };

  // `ids_in` is the memory of the judged ids, which are free then.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t n, EntryJudge &judge, GatherMatch &match,
                              const Ints &ids_in) {
    n_ = n, judge_ = &judge, match_ = &match;
    half_ = ids_in.ReinterpretCast<half>();
    for (Bits *bits : {&front_, &found_, &taken_, &other_}) *bits = Take<uint8_t>(pipe, n / 8);
    holes_ = judge.work[0], behind_ = judge.work[1], fresh_ = judge.spare;
    ids = match.held, indices = judge.index, kinds = judge.kind, hits = judge.work[0];
  }

  // Bits of the first `length` entries.
  __aicore__ inline void Front(uint32_t length) {
    AscendC::Mins(holes_, match_->own, static_cast<int32_t>(4 * length) - 4, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(front_, holes_, match_->own, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(judge_->ids, front_, judge_->ids, judge_->none, n_);
    Clear(judge_->kinds);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Of the compacted entries that were matched; leaves ids, kinds, bytes, indices and the ids that are hits.
  __aicore__ inline Counts Arrange(uint32_t length) {
    Counts counts = MarkHits(length);
    counts.behind = static_cast<int32_t>(Fill());
    Move();
    return counts;
  }

  Ints ids, indices, hits;
  AscendC::LocalTensor<float> kinds;

 private:
  __aicore__ inline void Clear(const AscendC::LocalTensor<float> &kinds_in) const {
    AscendC::Select(kinds_in, front_, kinds_in, static_cast<float>(kKindEmpty),
                    AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, n_);
  }

  __aicore__ inline Counts MarkHits(uint32_t length) {
    AscendC::Maxs(holes_, match_->place_of, 0, n_);
    AscendC::ShiftRight(fresh_, match_->place_of, 2, n_);
    judge_->Are(other_, kKindWindow);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(found_, holes_, match_->place_of, n_);
    const uint32_t written = Compress(behind_, match_->own, other_, n_);
    const uint32_t misses = Compress(indices, match_->own, match_->open, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(judge_->indices, found_, fresh_, judge_->indices, n_);
    Neither(other_, found_, n_);
    const uint32_t found = Compress(holes_, match_->own, found_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Select(judge_->kinds, other_, judge_->kinds, static_cast<float>(kKindHit),
                    AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, n_);
    return {static_cast<int32_t>(found), static_cast<int32_t>(misses), static_cast<int32_t>(length - found - misses),
            static_cast<int32_t>(written), 0};
  }

  // Writes an entry into every hole among the first places; gives how many entries lay behind them.
  __aicore__ inline uint32_t Fill() {
    const Ints at = match_->entry_at;
    AscendC::Maxs(fresh_, at, 0, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(taken_, fresh_, at, n_);
    Both(other_, other_, front_, n_);  // what is new
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t count = Compress(fresh_, match_->own, other_, n_);
    Neither(found_, taken_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Neither(other_, front_, n_);
    Both(found_, found_, front_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Both(taken_, taken_, other_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t holes = Compress(holes_, match_->own, found_, n_), behind = Compress(behind_, at, taken_, n_);
    if (holes == 0) return 0;
    Fence<AscendC::HardEvent::V_S>();
    for (uint32_t i = 0; i < behind; ++i) Put(i, behind_.GetValue(behind - 1 - i));
    for (uint32_t i = 0; i < count; ++i) Put(behind + i, fresh_.GetValue(i));
    Fence<AscendC::HardEvent::S_V>();
    return behind;
  }

  __aicore__ inline void Put(uint32_t hole, int32_t entry) {
    match_->entry_at.SetValue(static_cast<uint32_t>(holes_.GetValue(hole)) / 4, entry);
  }

  // Brings the entries to their places.
  __aicore__ inline void Move() {
    AscendC::Maxs(fresh_, match_->entry_at, 0, n_);  // behind the valid ones any entry will do
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Gather(ids, judge_->ids, Words(fresh_), 0, n_);
    AscendC::Gather(indices, judge_->indices, Words(fresh_), 0, n_);
    AscendC::Gather(kinds, judge_->kinds, Words(fresh_), 0, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(ids, front_, ids, judge_->none, n_);
    Choose(indices, front_, indices, judge_->none, n_);
    Clear(kinds);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::CompareScalar(other_, kinds, static_cast<float>(kKindHit), AscendC::CMPMODE::EQ, n_);
    AscendC::Cast(half_, kinds, AscendC::RoundMode::CAST_NONE, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(hits, other_, ids, judge_->none, n_);
    AscendC::Cast(judge_->bytes, half_, AscendC::RoundMode::CAST_NONE, n_);
  }

  uint32_t n_ = 0;
  EntryJudge *judge_ = nullptr;
  GatherMatch *match_ = nullptr;
  Ints holes_, behind_, fresh_;
  AscendC::LocalTensor<half> half_;
  Bits front_, found_, taken_, other_;
};

}  // namespace tierkv
