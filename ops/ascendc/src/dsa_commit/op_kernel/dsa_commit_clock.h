// CLOCK within sets of up to 64 ways: a miss takes the first way from the hand on that is neither visited nor
// touched, that is, hit in this step.
#pragma once

#include "dsa_commit_args.h"
#include "share.h"
#include "tierkv_constants.h"
#include "vector.h"

namespace tierkv {

template <typename Tiling>
class CommitClock {
 public:
  static constexpr bool kTouches = true;

  __aicore__ inline CommitClock(const CommitArgs &args, const Tiling &tiling)
      : a_(args), t_(tiling), all_(~uint64_t{0} >> (64 - tiling.ways)) {}

  __aicore__ inline void Init(AscendC::TPipe *pipe) {
    hand_ = Take<int32_t>(pipe, t_.mostSets), visited_ = Take<int64_t>(pipe, t_.mostSets);
    touched_ = Take<int64_t>(pipe, t_.mostSets);
    marks_ = Take<int16_t>(pipe, MarkCount(t_.mostSets * t_.ways));
    bits_ = Take<uint8_t>(pipe, MarkCount(t_.mostSets * t_.ways) / 8);
    for (uint32_t i = 0; i < 2; ++i) {
      kind_[i] = Take<int8_t>(pipe, t_.chunk), index_[i] = Take<int32_t>(pipe, t_.chunk);
      full_[i] = pipe->AllocEventID<AscendC::HardEvent::MTE2_V>();
      free_[i] = pipe->AllocEventID<AscendC::HardEvent::V_MTE2>();
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(free_[i]);
    }
    half_ = Take<half>(pipe, t_.chunk), slot_ = Take<int32_t>(pipe, t_.chunk), work_ = Take<int32_t>(pipe, t_.chunk);
    list_ = Take<int32_t>(pipe, t_.chunk);
    hit_ = Take<uint8_t>(pipe, t_.chunk / 8), mine_ = Take<uint8_t>(pipe, t_.chunk / 8);
    // A compare takes whole vectors, a load no more than there is.
    AscendC::Duplicate(half_.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0), t_.chunk);
  }

  __aicore__ inline void Close(AscendC::TPipe *pipe) {
    for (uint32_t i = 0; i < 2; ++i) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(free_[i]);
      pipe->ReleaseEventID<AscendC::HardEvent::V_MTE2>(free_[i]);
      pipe->ReleaseEventID<AscendC::HardEvent::MTE2_V>(full_[i]);
    }
  }

  __aicore__ inline void Fetch(const CommitPart &part) const {
    const uint64_t set = First(part);
    Load(hand_, a_.hand + set, part.sets);
    Load(visited_, a_.visited + set, part.sets);
  }

  // Lets the scalar pipe mark each slot that the row hits, one write a hit; a compare then makes a bit of each.
  __aicore__ inline void Touch(const CommitPart &part, uint32_t row) {
    const uint64_t entry = static_cast<uint64_t>(row) * t_.entries;
    const uint32_t count = MarkCount(part.slots);
    AscendC::Duplicate(marks_, static_cast<int16_t>(0), count);
    FetchHits(entry, 0);
    for (uint32_t at = 0; at < t_.entries; at += t_.chunk) {
      if (at + t_.chunk < t_.entries) FetchHits(entry, at + t_.chunk);
      MarkHits(part, at);
    }
    AscendC::CompareScalar(bits_, marks_.template ReinterpretCast<half>(), static_cast<half>(1.0f),
                           AscendC::CMPMODE::EQ, count);
    Fence<AscendC::HardEvent::V_S>();
    for (uint32_t set = 0; set < part.sets; ++set) touched_.SetValue(set, static_cast<int64_t>(Bits64(set * t_.ways)));
  }

  // Gives the way that a miss takes in a set of the part. Bit 0 of `seen` and `hit` is the way under the hand;
  // ways that the hand passes lose their visited bit.
  __aicore__ inline uint32_t Next(uint32_t set) const {
    const auto hand = static_cast<uint32_t>(hand_.GetValue(set)), under = hand < t_.ways ? hand : 0;
    const auto touched = static_cast<uint64_t>(touched_.GetValue(set));
    const uint64_t seen = Right(static_cast<uint64_t>(visited_.GetValue(set)), under), hit = Right(touched, under);
    const bool full = (seen | hit) == all_;
    const uint64_t idle = ~(full ? hit : seen | hit) & all_;
    const auto passed = idle == 0 ? 0 : static_cast<uint32_t>(AscendC::ScalarGetSFFValue<1>(idle));
    const uint32_t way = under + passed < t_.ways ? under + passed : under + passed - t_.ways;
    const uint64_t bit = uint64_t{1} << way;
    visited_.SetValue(set, static_cast<int64_t>(Left(full ? 0 : seen >> passed << passed, under) & ~bit));
    if ((touched & bit) != 0) touched_.SetValue(set, static_cast<int64_t>(touched & ~bit));
    hand_.SetValue(set, static_cast<int32_t>(way + 1 == t_.ways ? 0 : way + 1));
    return way;
  }

  // Likewise; what was touched is visited from now on.
  __aicore__ inline void Write(const CommitPart &part, bool changed) const {
    const uint64_t set = First(part);
    const auto visited = visited_.template ReinterpretCast<uint16_t>();
    Fence<AscendC::HardEvent::S_V>();
    AscendC::Or(visited, visited, touched_.template ReinterpretCast<uint16_t>(), part.sets * 4);
    Fence<AscendC::HardEvent::V_MTE3>();
    if (changed) Store(a_.hand + set, hand_, part.sets);
    Store(a_.visited + set, visited_, part.sets);
  }

 private:
  static constexpr int16_t kMark = 0x3c00;  // 1 as half

  __aicore__ inline static uint32_t MarkCount(uint32_t slots) { return RoundUp(slots, 256); }

  __aicore__ inline uint64_t First(const CommitPart &part) const {
    return static_cast<uint64_t>(part.lane) * t_.sets + part.set;
  }

  __aicore__ inline void FetchHits(uint64_t entry, uint32_t at) {
    const uint32_t turn = fetched_++ % 2, n = Least(t_.entries - at, t_.chunk);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(free_[turn]);
    Load(kind_[turn], a_.kind + entry + at, n);
    Load(index_[turn], a_.index + entry + at, n);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(full_[turn]);
  }

  __aicore__ inline void MarkHits(const CommitPart &part, uint32_t at) {
    const uint32_t turn = marked_++ % 2, n = Least(t_.entries - at, t_.chunk);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(full_[turn]);
    AscendC::Cast(half_, kind_[turn], AscendC::RoundMode::CAST_NONE, n);
    AscendC::Adds(slot_, index_[turn], -part.slot, n);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(free_[turn]);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::CompareScalar(hit_, half_, static_cast<half>(static_cast<float>(kKindHit)), AscendC::CMPMODE::EQ,
                           t_.chunk);
    AscendC::Maxs(work_, slot_, 0, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mins(work_, work_, static_cast<int32_t>(part.slots) - 1, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mine_, work_, slot_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Both(mine_, mine_, hit_, n);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t hits = Compress(list_, slot_, mine_, n);
    if (hits == 0) return;
    Fence<AscendC::HardEvent::V_S>();
    for (uint32_t pair = 0; pair < hits / 2; ++pair) {
      const Pair both = ReadPair(list_, pair);
      marks_.SetValue(both.first, kMark);
      marks_.SetValue(both.second, kMark);
    }
    if (hits % 2 != 0) marks_.SetValue(static_cast<uint32_t>(list_.GetValue(hits - 1)), kMark);
    Fence<AscendC::HardEvent::S_V>();
  }

  // The `ways` bits from a slot of the part on.
  __aicore__ inline uint64_t Bits64(uint32_t slot) const {
    const auto words = bits_.ReinterpretCast<uint64_t>();
    const uint32_t word = slot / 64, shift = slot % 64;
    uint64_t value = words.GetValue(word) >> shift;
    if (shift + t_.ways > 64) value |= words.GetValue(word + 1) << (64 - shift);
    return value & all_;
  }

  __aicore__ inline uint64_t Right(uint64_t bits, uint32_t by) const {
    return (bits >> by | bits << ((t_.ways - by) & 63)) & all_;
  }
  __aicore__ inline uint64_t Left(uint64_t bits, uint32_t by) const {
    return (bits << by | bits >> ((t_.ways - by) & 63)) & all_;
  }

  const CommitArgs &a_;
  const Tiling &t_;
  uint64_t all_;  // ways
  Ints hand_, index_[2], slot_, work_, list_;
  AscendC::LocalTensor<int64_t> visited_, touched_;
  AscendC::LocalTensor<int16_t> marks_;
  AscendC::LocalTensor<int8_t> kind_[2];
  AscendC::LocalTensor<half> half_;
  Bits bits_, hit_, mine_;
  AscendC::TEventID full_[2], free_[2];
  uint32_t fetched_ = 0, marked_ = 0;
};

}  // namespace tierkv
