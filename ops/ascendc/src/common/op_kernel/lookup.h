// Entries of a table in GM, by number.
#pragma once

#include "share.h"
#include "vector.h"

namespace tierkv {

// Brings a table through UB in tiles, the next one while one is searched. In UB a tile stands between
// two blocks of -1, and numbers are clamped onto them: what lies outside the tile gives -1 without a
// mask, and the greatest of all tiles' answers is the entry. Entries below -1 read as -1.
class TableReader {
 public:
  // `tiles` is memory for two tiles of `tile_bytes`, a multiple of 32; nobody else may use it during
  // Find. `offset` and `got` hold as many int32 as Find is given numbers.
  __aicore__ inline void Init(AscendC::TPipe *pipe, const Bits &tiles, uint32_t tile_bytes, const Ints &offset,
                              const Ints &got) {
    tiles_ = tiles, bytes_ = tile_bytes, offset_ = offset, got_ = got;
    for (uint32_t i = 0; i < 2; ++i) {
      full_[i] = pipe->AllocEventID<AscendC::HardEvent::MTE2_V>();
      free_[i] = pipe->AllocEventID<AscendC::HardEvent::V_MTE2>();
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(free_[i]);
    }
  }

  __aicore__ inline void Close(AscendC::TPipe *pipe) {
    for (uint32_t i = 0; i < 2; ++i) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(free_[i]);
      pipe->ReleaseEventID<AscendC::HardEvent::V_MTE2>(free_[i]);
      pipe->ReleaseEventID<AscendC::HardEvent::MTE2_V>(full_[i]);
    }
  }

  // found[i] = table[at[i]], -1 if there is no such entry among the first `size`; i < n.
  template <typename T>
  __aicore__ inline void Find(const AscendC::LocalTensor<T> &found, __gm__ T *table, uint32_t size, const Ints &at,
                              uint32_t n) {
    constexpr uint32_t edge = kBlockBytes / sizeof(T);
    const uint32_t most = bytes_ / sizeof(T) - 2 * edge;
    AscendC::Duplicate(found, static_cast<T>(-1), n);
    if (size > 0) Fetch(table, Least(size, most));
    for (uint32_t first = 0; first < size; first += most) {
      const uint32_t next = first + most;
      if (next < size) Fetch(table + next, Least(size - next, most));
      Search(found, at, n, first, Least(size - first, most));
    }
  }

 private:
  template <typename T>
  __aicore__ inline AscendC::LocalTensor<T> Tile(uint32_t turn) const {
    return tiles_[turn % 2 * bytes_].template ReinterpretCast<T>();
  }

  template <typename T>
  __aicore__ inline void Fetch(__gm__ T *from, uint32_t count) {
    const uint32_t turn = fetched_++;
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(free_[turn % 2]);
    Load(Tile<T>(turn)[kBlockBytes / sizeof(T)], from, count, static_cast<T>(-1));
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(full_[turn % 2]);
  }

  template <typename T>
  __aicore__ inline void Search(const AscendC::LocalTensor<T> &found, const Ints &at, uint32_t n, uint32_t first,
                                uint32_t count) {
    constexpr int32_t edge = kBlockBytes / sizeof(T);
    const uint32_t turn = searched_++;
    const auto tile = Tile<T>(turn), got = got_.template ReinterpretCast<T>();
    AscendC::Duplicate(tile, static_cast<T>(-1), edge);
    AscendC::Duplicate(tile[edge + RoundUp(count, edge)], static_cast<T>(-1), edge);
    AscendC::Adds(offset_, at, edge - static_cast<int32_t>(first), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Maxs(offset_, offset_, edge - 1, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mins(offset_, offset_, edge + static_cast<int32_t>(count), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(offset_, offset_, static_cast<int32_t>(sizeof(T)), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(full_[turn % 2]);
    AscendC::Gather(got, tile, Words(offset_), 0, n);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(free_[turn % 2]);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Max(found, found, got, n);
  }

  Bits tiles_;
  Ints offset_, got_;
  uint32_t bytes_ = 0, fetched_ = 0, searched_ = 0;
  AscendC::TEventID full_[2], free_[2];
};

}  // namespace tierkv
