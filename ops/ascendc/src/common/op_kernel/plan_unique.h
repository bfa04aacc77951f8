// Second half of planning: list a row's unique misses, and count its unique hits.
#pragma once

#include "plan_args.h"
#include "share.h"
#include "unique.h"

namespace tierkv {

// A row has one unit for its misses and `parts` for its hits, which are many: each takes a share of the
// hashes. Misses are few, and their order matters.
template <typename Tiling>
class PlanUnique {
 public:
  __aicore__ inline PlanUnique(const PlanArgs &args, const Tiling &tiling, PlanCounts &counts)
      : a_(args), t_(tiling), counts_(counts), n_(tiling.chunk) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    Init(pipe);
    const Range mine = MyShare(t_.unitEach, t_.unitMore);
    for (uint32_t unit = mine.first; unit < mine.last; ++unit) {
      const uint32_t row = unit / (1 + t_.parts), part = unit % (1 + t_.parts);
      const uint64_t entry = static_cast<uint64_t>(row) * t_.entries;
      Fence<AscendC::HardEvent::MTE3_V>();
      part == 0 ? Misses(row, entry) : Hits(entry, part - 1);
    }
  }

 private:
  static constexpr uint32_t kMostChunks = 4;

  __aicore__ inline void Init(AscendC::TPipe *pipe) {
    places_.Init(pipe, n_, t_.chunks, t_.table);
    kind_ = Take<int8_t>(pipe, n_ * t_.chunks), missing_ = Take<uint8_t>(pipe, n_ * t_.chunks / 8);
    half_ = Take<half>(pipe, n_), none_ = Take<int32_t>(pipe, n_);
    own_ = places_.work[0], work_ = places_.work[1], id_ = places_.work[2], from_ = places_.work[3];
    mask_ = Take<uint8_t>(pipe, n_ / 8), other_ = Take<uint8_t>(pipe, n_ / 8);
    total_ = Take<int32_t>(pipe, 1);
    AscendC::Duplicate(none_, -1, n_);
    // Loads fill a row's kinds only; kinds behind them stay EMPTY.
    AscendC::Duplicate(kind_.template ReinterpretCast<int16_t>(), static_cast<int16_t>(kKindEmpty),
                       n_ * t_.chunks / 2);
  }

  __aicore__ inline uint32_t Count(uint32_t at) const { return Least(t_.entries - at, n_); }

  __aicore__ inline void Hits(uint64_t entry, uint32_t part) {
    uint32_t counts[kMostChunks], all = 0;
    const uint32_t low = part * t_.hashes / t_.parts, span = (part + 1) * t_.hashes / t_.parts - low;
    const Ints found = places_.first;  // not in use yet
    places_.SetHash(t_.hitShift, low);
    Fence<AscendC::HardEvent::V_MTE2>();
    Load(found, a_.found + entry, t_.entries);
    Fence<AscendC::HardEvent::MTE2_V>();
    for (uint32_t chunk = 0, at = 0; chunk < t_.chunks; ++chunk, at += n_) {
      all += counts[chunk] = TakeShare(found[at], at, span);
    }
    if (all == 0) return;
    places_.Find(counts);
    for (uint32_t chunk = 0, at = 0; chunk < t_.chunks; ++chunk, at += n_) {
      if (counts[chunk] == 0) continue;
      MarkFirsts(at, counts[chunk]);
      counts_.unique_hits += static_cast<int32_t>(Compress(work_, own_, mask_, counts[chunk]));
    }
  }

  // Moves the hits whose hash is this part's to the entries from `at` on; gives how many.
  __aicore__ inline uint32_t TakeShare(const Ints &found, uint32_t at, uint32_t span) {
    const uint32_t n = Count(at);
    places_.Hash(own_, found, n);
    AscendC::Maxs(work_, found, 0, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mask_, work_, found, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Maxs(work_, own_, 0, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mins(work_, work_, static_cast<int32_t>(span) - 1, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(other_, work_, own_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Both(mask_, mask_, other_, n);
    AscendC::Duplicate(places_.pending[at / 8].template ReinterpretCast<uint16_t>(), static_cast<uint16_t>(0xffff),
                       n_ / 16);
    AscendC::PipeBarrier<PIPE_V>();
    return Compress(places_.ids[at], found, mask_, n);
  }

  // own_ becomes 4 times each place, mask_ says which entries are the first with their id.
  __aicore__ inline void MarkFirsts(uint32_t at, uint32_t n) {
    AscendC::PipeBarrier<PIPE_V>();
    places_.Places(own_, at, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mask_, places_.first[at], own_, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Misses(uint32_t row, uint64_t entry) {
    uint32_t counts[kMostChunks], listed = 0;
    places_.SetHash(t_.missShift, 0);
    Fence<AscendC::HardEvent::V_MTE2>();
    Load(kind_, a_.kind + entry, t_.entries);
    Load(places_.ids, a_.out_ids + entry, t_.entries);
    Fence<AscendC::HardEvent::MTE2_V>();
    for (uint32_t chunk = 0, at = 0; chunk < t_.chunks; ++chunk, at += n_) {
      counts[chunk] = Count(at);
      MarkMisses(at);
    }
    places_.Find(counts);
    for (uint32_t chunk = 0, at = 0; chunk < t_.chunks; ++chunk, at += n_) {
      listed += List(entry, at, listed);
    }
    for (uint32_t at = listed; at < t_.entries; at += n_) {
      Store(a_.miss_id + entry + at, none_, Count(at));
      Store(a_.miss_from + entry + at, none_, Count(at));
    }
    counts_.unique_misses += static_cast<int32_t>(listed);
    counts_.fetched += static_cast<int32_t>(listed);
    Fence<AscendC::HardEvent::MTE3_S>();
    total_.SetValue(0, static_cast<int32_t>(listed));
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(a_.miss_count + row, total_, 1);
  }

  __aicore__ inline void MarkMisses(uint32_t at) {
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(half_, kind_[at], AscendC::RoundMode::CAST_NONE, n_);
    AscendC::PipeBarrier<PIPE_V>();
    const auto miss = static_cast<half>(static_cast<float>(kKindMiss));
    AscendC::CompareScalar(places_.pending[at / 8], half_, miss, AscendC::CMPMODE::EQ, n_);
    AscendC::CompareScalar(missing_[at / 8], half_, miss, AscendC::CMPMODE::EQ, n_);
  }

  // Appends the unique misses of a chunk to the `listed` ones before; gives how many.
  __aicore__ inline uint32_t List(uint64_t entry, uint32_t at, uint32_t listed) {
    const uint32_t n = Count(at);
    const Bits missing = missing_[at / 8];
    Fence<AscendC::HardEvent::MTE3_V>();
    MarkFirsts(at, n);
    Both(mask_, mask_, missing, n);
    AscendC::ShiftRight(own_, own_, 2, n);
    AscendC::PipeBarrier<PIPE_V>();
    Neither(other_, mask_, n);
    const uint32_t unique = Compress(id_, places_.ids[at], mask_, n);
    Compress(from_, own_, mask_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Both(other_, other_, missing, n);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t repeats = Compress(work_, own_, other_, n);
    Fence<AscendC::HardEvent::V_MTE3>();
    if (unique > 0) {
      Store(a_.miss_id + entry + listed, id_, unique);
      Store(a_.miss_from + entry + listed, from_, unique);
    }
    if (repeats > 0) Repeat(entry, at, n);
    return unique;
  }

  // Lets the entries of other_ point at the first with their id.
  __aicore__ inline void Repeat(uint64_t entry, uint32_t at, uint32_t n) {
    const auto kind = kind_[at];
    Fence<AscendC::HardEvent::V_MTE2>();
    Load(own_, a_.index + entry + at, n);
    Fence<AscendC::HardEvent::MTE2_V>();
    AscendC::ShiftRight(work_, places_.first[at], 2, n);
    Neither(mask_, other_, n_);
    AscendC::Cast(half_, kind, AscendC::RoundMode::CAST_NONE, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(own_, other_, work_, own_, n);
    AscendC::Select(half_, mask_, half_, static_cast<half>(static_cast<float>(kKindRepeat)),
                    AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, n_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(kind, half_, AscendC::RoundMode::CAST_NONE, n_);
    Fence<AscendC::HardEvent::V_MTE3>();
    Store(a_.index + entry + at, own_, n);
    Store(a_.kind + entry + at, kind, n);
  }

  const PlanArgs &a_;
  const Tiling &t_;
  PlanCounts &counts_;
  uint32_t n_;  // entries of a chunk
  FirstPlaces places_;
  AscendC::LocalTensor<int8_t> kind_;
  AscendC::LocalTensor<half> half_;
  Ints own_, work_, none_, total_, id_, from_;
  Bits missing_, mask_, other_;
};

}  // namespace tierkv
