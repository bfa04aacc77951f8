// Judge the entries of a query and move the valid ones to the front.
#pragma once

#include "share.h"
#include "tierkv_constants.h"
#include "vector.h"

namespace tierkv {

struct BatchArgs {
  __gm__ int32_t *lanes, *kv_len, *q_len, *stable;  // [B]
};

// One batch row.
struct BatchRow {
  uint32_t row;
  int32_t lane, kv_len, start;  // `start` is query 0's position
  int32_t stable, fresh;        // the first positions that may change, and that this step appended
  uint32_t first_live;          // query; all are dead from the number of queries on

  // A lane that is not among `lanes` is a padding row.
  __aicore__ inline BatchRow(const BatchArgs &batch, uint32_t at, uint32_t queries, uint32_t lanes) : row(at) {
    const int32_t live = ReadGm(batch.q_len, at);
    lane = ReadGm(batch.lanes, at), kv_len = ReadGm(batch.kv_len, at), stable = ReadGm(batch.stable, at);
    start = kv_len - static_cast<int32_t>(queries);
    fresh = kv_len - live < stable ? stable : kv_len - live;
    const bool alive = lane >= 0 && lane < static_cast<int32_t>(lanes) && kv_len > 0 && live > 0;
    first_live = alive ? queries - Least(static_cast<uint32_t>(live), queries) : queries;
  }
};

// Works on whole queries, without a branch on an entry:
//
// 1. Judge says kind and index of every entry as if nothing were resident.
// 2. The caller may change kinds and indices, of entries that are MISS here.
// 3. Compact moves the valid entries to the front.
//
// What a step leaves stays until the next Judge. As everywhere, the caller orders what it does itself.
class EntryJudge {
 public:
  static constexpr uint32_t kBytesPerEntry = 27;  // of the memory lent to Init

  // A query has `n` entries with its padding of -1, a multiple of 64. `memory` and both works are in use
  // from Judge on until its results are.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t n, const Bits &memory, const Ints &work0,
                              const Ints &work1) {
    n_ = n;
    place_ = Take<int32_t>(pipe, n), none = Take<int32_t>(pipe, n), empty = Take<int8_t>(pipe, n);
    for (Bits &mask : masks_) mask = Take<uint8_t>(pipe, n / 8);
    work[0] = work0, work[1] = work1;
    const Ints words = memory.ReinterpretCast<int32_t>();
    ids = words, kinds = Floats(words[n]), indices = words[2 * n], spare = words[3 * n], index = words[4 * n];
    kind = Floats(words[5 * n]), half_ = words[6 * n].ReinterpretCast<half>();
    bytes = memory[26 * n].ReinterpretCast<int8_t>();
    AscendC::CreateVecIndex(place_, 0, n);
    AscendC::Duplicate(none, -1, n);
    AscendC::Duplicate(empty.ReinterpretCast<int16_t>(), static_cast<int16_t>(kKindEmpty), n / 2);
    Fence<AscendC::HardEvent::V_MTE3>();
  }

  // `far` is each id's backing row, below 0 where there is none. Leaves kind and index.
  __aicore__ inline void Judge(const BatchRow &row, uint32_t query, const Ints &id, const Ints &far) {
    Ask(row, row.start + static_cast<int32_t>(query), id, far);
    Both(masks_[kReached], masks_[kReached], masks_[kAsked], n_);
    Otherwise(masks_[kStable], kKindWindow);
    Choose(index, masks_[kOld], far, spare, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Both(masks_[kMapped], masks_[kMapped], masks_[kReached], n_);
    Otherwise(masks_[kOld], kKindFresh);
    const auto asked = static_cast<int32_t>(Compress(work[0], id, masks_[kAsked], n_));
    const auto reached = static_cast<int32_t>(Compress(work[1], id, masks_[kReached], n_));
    future += asked - reached;
    unmapped += reached;  // Compact takes off the valid ones
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Entries whose bit is not set become `value`.
  __aicore__ inline void Otherwise(const Bits &mask, int32_t value) const {
    AscendC::Select(kind, mask, kind, static_cast<float>(value), AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, n_);
  }

  // Leaves ids, kinds and indices: valid entries in front, -1, EMPTY and -1 behind them up to `top_k`. Kinds
  // as bytes, too. Gives the number of valid entries.
  __aicore__ inline uint32_t Compact(const Ints &id, uint32_t top_k) {
    const uint32_t length = Compress(ids, id, masks_[kMapped], n_);
    Compress(kinds, kind, masks_[kMapped], n_);
    Compress(indices, index, masks_[kMapped], n_);
    unmapped -= static_cast<int32_t>(length);
    AscendC::PipeBarrier<PIPE_V>();
    if (length < top_k) ClearBehind(static_cast<int32_t>(length));
    AscendC::Cast(half_, kinds, AscendC::RoundMode::CAST_NONE, n_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(bytes, half_, AscendC::RoundMode::CAST_NONE, n_);
    return length;
  }

  // The bits of those of `kinds` that are `value`; undefined behind the valid ones if all of `top_k` are.
  __aicore__ inline void Are(const Bits &mask, int32_t value) const {
    AscendC::CompareScalar(mask, kinds, static_cast<float>(value), AscendC::CMPMODE::EQ, n_);
  }

  Ints work[2], spare;          // free after Judge
  Ints index;                   // of Judge
  AscendC::LocalTensor<float> kind;
  Ints ids, indices;            // of Compact
  AscendC::LocalTensor<float> kinds;
  AscendC::LocalTensor<int8_t> bytes;
  Ints none;                    // -1, for queries without valid entries
  AscendC::LocalTensor<int8_t> empty;
  int32_t future = 0, unmapped = 0;  // counts

 private:
  // What a mask's bits say of their entries.
  enum { kAsked, kReached, kMapped, kStable, kOld, kMasks };

  __aicore__ inline void Ask(const BatchRow &row, int32_t position, const Ints &id, const Ints &far) const {
    AscendC::Maxs(work[0], id, 0, n_);
    AscendC::Mins(work[1], id, position, n_);
    AscendC::Maxs(ids, far, 0, n_);
    AscendC::Mins(kinds.ReinterpretCast<int32_t>(), id, row.stable - 1, n_);
    AscendC::Mins(indices, id, row.fresh - 1, n_);
    AscendC::Adds(spare, id, -row.start, n_);
    AscendC::Duplicate(kind, static_cast<float>(kKindMiss), n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(masks_[kAsked], work[0], id, n_);
    Equal(masks_[kReached], work[1], id, n_);
    Equal(masks_[kMapped], ids, far, n_);
    Equal(masks_[kStable], kinds.ReinterpretCast<int32_t>(), id, n_);
    Equal(masks_[kOld], indices, id, n_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void ClearBehind(int32_t length) {
    const Bits front = masks_[kAsked];
    AscendC::Mins(work[0], place_, length - 1, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(front, work[0], place_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(ids, front, ids, none, n_);
    Choose(indices, front, indices, none, n_);
    AscendC::Select(kinds, front, kinds, static_cast<float>(kKindEmpty), AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                    n_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  uint32_t n_ = 0;
  Ints place_;
  AscendC::LocalTensor<half> half_;
  Bits masks_[kMasks];
};

}  // namespace tierkv
