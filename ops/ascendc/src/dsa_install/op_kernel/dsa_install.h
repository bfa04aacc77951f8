// Copy placed misses from the selection into the pool.
#pragma once

#include "row_buffer.h"
#include "share.h"

namespace tierkv {

struct InstallArgs {
  __gm__ int32_t *lanes, *missFrom, *missCount, *slot;
  __gm__ uint8_t *selection, *pool;
};

// The misses of all rows of the batch, one row behind the other, are shared out evenly. The placement
// gives every lane's slots once, so no two cores write the same record.
template <typename Tiling>
class Install {
 public:
  __aicore__ inline Install(const InstallArgs &args, const Tiling &tiling) : a_(args), t_(tiling) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    buffer_.Init(pipe, t_.rowBytes, t_.batchRows);
    slot_ = Take<int32_t>(pipe, kTile);
    from_ = Take<int32_t>(pipe, kTile);

    const Range mine = Share();
    uint32_t before = 0;  // misses of the rows before
    for (uint32_t row = 0; row < t_.rows && before < mine.last; ++row) {
      const uint32_t count = ReadGm(a_.missCount, row);
      const uint32_t first = mine.first > before ? mine.first - before : 0;
      const uint32_t last = Least(mine.last - before, count);
      for (uint32_t miss = first; miss < last; miss += kTile) InstallTile(row, miss, Least(last - miss, kTile));
      before += count;
    }
    buffer_.Close();
  }

 private:
  static constexpr uint32_t kTile = 1024;

  __aicore__ inline Range Share() const {
    uint32_t all = 0;
    for (uint32_t row = 0; row < t_.rows; ++row) all += ReadGm(a_.missCount, row);
    const uint32_t cores = AscendC::GetBlockNum();
    return MyShare(all / cores, all % cores);
  }

  __aicore__ inline void InstallTile(uint32_t row, uint32_t first, uint32_t count) {
    const uint64_t base = uint64_t{row} * t_.entries;
    Fence<AscendC::HardEvent::S_MTE2>();
    Load(slot_, a_.slot + base + first, count);
    Load(from_, a_.missFrom + base + first, count);
    __gm__ uint8_t *selection = a_.selection + base * t_.rowBytes;
    __gm__ uint8_t *pool = a_.pool + int64_t{ReadGm(a_.lanes, row)} * t_.slots * t_.rowBytes;
    Fence<AscendC::HardEvent::MTE2_S>();
    for (uint32_t at = 0; at < count; at += t_.batchRows) {
      const uint32_t last = Least(at + t_.batchRows, count);
      Bring(selection, at, last);
      buffer_.StartWriting();
      Place(pool, at, last);
      buffer_.Turn();
    }
  }

  __aicore__ inline void Bring(__gm__ uint8_t *selection, uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; i += 2) {
      const Pair slot = ReadPair(slot_, i / 2), from = ReadPair(from_, i / 2);
      if (IsPlaced(slot.first)) buffer_.Read(selection + uint64_t{from.first} * t_.rowBytes);
      if (i + 1 < last && IsPlaced(slot.second)) buffer_.Read(selection + uint64_t{from.second} * t_.rowBytes);
    }
  }

  // Reads the slots a second time: an access for two rows, where keeping addresses would take several a row.
  __aicore__ inline void Place(__gm__ uint8_t *pool, uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; i += 2) {
      const Pair slot = ReadPair(slot_, i / 2);
      if (IsPlaced(slot.first)) buffer_.Write(pool + uint64_t{slot.first} * t_.rowBytes);
      if (i + 1 < last && IsPlaced(slot.second)) buffer_.Write(pool + uint64_t{slot.second} * t_.rowBytes);
    }
  }

  __aicore__ static inline bool IsPlaced(uint32_t slot) { return static_cast<int32_t>(slot) >= 0; }

  const InstallArgs &a_;
  const Tiling &t_;
  RowBuffer buffer_;
  Ints slot_, from_;
};

}  // namespace tierkv
