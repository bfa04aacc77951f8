// First half of placement: choose the slots, change the tables.
#pragma once

#include "dsa_commit_args.h"
#include "dsa_commit_set_of.h"
#include "share.h"

namespace tierkv {

// A unit is some sets of a row's lane: sets are independent, so each unit has its part of the tables for itself.
// Only slot_of is by position. It is changed by copies of single entries: bringing it through UB would move
// the whole table, twice, for about a thousand entries, and need its parts to be other units than those of sets.
template <typename Policy, typename Tiling>
class CommitPlace {
 public:
  __aicore__ inline CommitPlace(const CommitArgs &args, const Tiling &tiling, CommitCounts &counts)
      : a_(args), t_(tiling), counts_(counts), policy_(args, tiling) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    Init(pipe);
    const Range mine = MyShare(t_.unitEach, t_.unitMore);
    for (uint32_t unit = mine.first; unit < mine.last; ++unit) {
      const uint32_t row = unit / t_.parts, lane = static_cast<uint32_t>(ReadGm(a_.lanes, row));
      if (lane < t_.lanes) Place(row, lane, unit % t_.parts);
    }
    policy_.Close(pipe);
  }

 private:
  static constexpr uint32_t kEdge = kBlockBytes / sizeof(int32_t), kCells = 128;

  __aicore__ inline void Init(AscendC::TPipe *pipe) {
    const uint32_t held = kEdge + t_.mostSets * t_.ways;
    now_ = Take<int32_t>(pipe, held), before_ = Take<int32_t>(pipe, held);
    slot_ = Take<int16_t>(pipe, RoundUp(t_.entries, t_.chunk));
    for (Ints &each : w_) each = Take<int32_t>(pipe, t_.chunk);
    id_ = Take<int32_t>(pipe, t_.chunk), none_ = Take<int32_t>(pipe, t_.chunk);
    order_ = Take<int32_t>(pipe, t_.chunk), mask_ = Take<uint8_t>(pipe, t_.chunk / 8);
    cells_ = Take<int32_t>(pipe, kCells * kEdge), spread_ = Take<int32_t>(pipe, kCells * kEdge);
    set_of_.Init(t_.sets, t_.hashing == 1);
    policy_.Init(pipe);
    AscendC::Duplicate(none_, -1, t_.chunk);
    AscendC::CreateVecIndex(order_, 0, t_.chunk);
    // -1 stands before the tables, for misses of other parts.
    AscendC::Duplicate(now_, -1, kEdge);
    AscendC::Duplicate(before_, -1, kEdge);
    AscendC::CreateVecIndex(spread_, 0, kCells * kEdge);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftRight(spread_, spread_, 3, kCells * kEdge);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftLeft(spread_, spread_, 2, kCells * kEdge);
  }

  __aicore__ inline void Place(uint32_t row, uint32_t lane, uint32_t number) {
    const uint32_t misses = Least(static_cast<uint32_t>(ReadGm(a_.miss_count, row)), t_.entries);
    const uint32_t first = number * t_.sets / t_.parts, sets = (number + 1) * t_.sets / t_.parts - first;
    const CommitPart part{lane, first, sets, static_cast<int32_t>(first * t_.ways), sets * t_.ways};
    const auto table = a_.id_at + static_cast<uint64_t>(lane) * t_.slots + part.slot;
    if (misses == 0 && !Policy::kTouches) return;
    // The unit before used this memory; storing was the last it did.
    Fence<AscendC::HardEvent::MTE3_MTE2>();
    Load(now_[kEdge], table, part.slots);
    Load(before_[kEdge], table, part.slots);
    policy_.Fetch(part);
    policy_.Touch(part, row);
    uint32_t offered = 0, kept = 0;
    for (uint32_t at = 0; at < misses; at += t_.chunk) offered += Offer(part, row, at, Least(misses - at, t_.chunk));
    for (uint32_t at = 0; at < misses; at += t_.chunk) {
      if (misses > t_.chunk) Bring(row, at, Least(misses - at, t_.chunk));
      kept += Settle(part, row * t_.parts + number, at, Least(misses - at, t_.chunk));
    }
    if (offered > 0) {
      Fence<AscendC::HardEvent::S_MTE3>();
      Store(table, now_[kEdge], part.slots);
    }
    policy_.Write(part, offered > 0);
    counts_.installs += static_cast<int32_t>(kept);
    counts_.superseded += static_cast<int32_t>(offered - kept);
  }

  __aicore__ inline void Bring(uint32_t row, uint32_t at, uint32_t n) {
    Fence<AscendC::HardEvent::V_MTE2>();
    Load(id_, a_.miss_id + static_cast<uint64_t>(row) * t_.entries + at, n);
    Fence<AscendC::HardEvent::MTE2_V>();
  }

  // Gives the part's misses of a chunk their slots, one after the other; gives how many they are.
  __aicore__ inline uint32_t Offer(const CommitPart &part, uint32_t row, uint32_t at, uint32_t n) {
    const Ints set = w_[0], work = w_[1], word = w_[2];
    Bring(row, at, n);
    AscendC::Duplicate(slot_[at], static_cast<int16_t>(-1), t_.chunk);
    set_of_(set, id_, work, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(set, set, -static_cast<int32_t>(part.set), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Maxs(work, set, 0, n);
    AscendC::ShiftLeft(word, set, 16, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mins(work, work, static_cast<int32_t>(part.sets) - 1, n);
    AscendC::Add(word, word, order_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mask_, work, set, n);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t mine = Compress(w_[3], word, mask_, n);
    Compress(w_[4], id_, mask_, n);
    if (mine == 0) return 0;
    Fence<AscendC::HardEvent::V_S>();
    for (uint32_t pair = 0; pair < mine / 2; ++pair) {
      const Pair words = ReadPair(w_[3], pair), ids = ReadPair(w_[4], pair);
      Give(words.first, ids.first, at);
      Give(words.second, ids.second, at);
    }
    if (mine % 2 != 0) {
      Give(static_cast<uint32_t>(w_[3].GetValue(mine - 1)), static_cast<uint32_t>(w_[4].GetValue(mine - 1)), at);
    }
    Fence<AscendC::HardEvent::S_V>();
    return mine;
  }

  // `word` is the set within the part, and the miss's place in the chunk.
  __aicore__ inline void Give(uint32_t word, uint32_t id, uint32_t at) {
    const uint32_t set = word >> 16, slot = set * t_.ways + policy_.Next(set);
    now_.SetValue(kEdge + slot, static_cast<int32_t>(id));
    slot_.SetValue(at + (word & 0xffff), static_cast<int16_t>(slot));
  }

  // Now that every slot has its last owner: writes the slots that misses of a chunk keep, -1 for the others,
  // and lets owners of before leave. Gives how many are kept.
  __aicore__ inline uint32_t Settle(const CommitPart &part, uint64_t unit, uint32_t at, uint32_t n) {
    const Ints slot = w_[0], work = w_[1], owner = w_[2], left = w_[3];
    Fence<AscendC::HardEvent::MTE3_V>();
    Fence<AscendC::HardEvent::S_V>();
    AscendC::Cast(Floats(work), slot_[at], AscendC::RoundMode::CAST_NONE, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(slot, Floats(work), AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(work, slot, static_cast<int32_t>(kEdge), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftLeft(work, work, 2, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Gather(owner, now_, Words(work), 0, n);
    AscendC::Gather(left, before_, Words(work), 0, n);
    AscendC::Adds(slot, slot, part.slot, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mask_, owner, id_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(slot, mask_, slot, none_, n);
    Choose(left, mask_, left, none_, n);
    const uint32_t kept = Compress(w_[4], id_, mask_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Compress(w_[5], slot, mask_, n);
    AscendC::Maxs(work, left, 0, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mask_, work, left, n);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t gone = Compress(w_[6], left, mask_, n);
    Fence<AscendC::HardEvent::V_MTE3>();
    Fence<AscendC::HardEvent::V_S>();
    Store(a_.taken + unit * t_.takenStride + at, slot, n);
    Leave(part.lane, gone);
    Enter(part.lane, kept);
    return kept;
  }

  // Copies start at a block: each slot is spread to one of its own.
  __aicore__ inline void Enter(uint32_t lane, uint32_t kept) {
    for (uint32_t first = 0; first < kept; first += kCells) {
      const uint32_t n = Least(kept - first, kCells);
      Fence<AscendC::HardEvent::MTE3_V>();
      AscendC::Gather(cells_, w_[5][first], Words(spread_), 0, n * kEdge);
      Fence<AscendC::HardEvent::V_MTE3>();
      for (uint32_t i = 0; i < n; ++i) Set(lane, w_[4].GetValue(first + i), cells_[i * kEdge]);
    }
  }

  __aicore__ inline void Leave(uint32_t lane, uint32_t gone) {
    for (uint32_t i = 0; i < gone; ++i) Set(lane, w_[6].GetValue(i), none_);
  }

  // The lower bytes of a slot are its narrow form.
  __aicore__ inline void Set(uint32_t lane, int32_t id, const Ints &slot) const {
    if (static_cast<uint32_t>(id) >= t_.positions) return;
    Store(a_.slot_of + (static_cast<uint64_t>(lane) * t_.positions + id) * t_.slotBytes,
          slot.ReinterpretCast<uint8_t>(), t_.slotBytes);
  }

  const CommitArgs &a_;
  const Tiling &t_;
  CommitCounts &counts_;
  Policy policy_;
  SetOf set_of_;
  Ints now_, before_;  // id_at of the part, behind one block
  AscendC::LocalTensor<int16_t> slot_;  // of each miss, within the part; -1 of other parts
  Ints id_, order_, none_, w_[7], cells_, spread_;
  Bits mask_;
};

}  // namespace tierkv
