// Put the selected rows side by side, zero behind them.
#pragma once

#include "row_copy.h"
#include "row_zero.h"
#include "share.h"
#include "tierkv_constants.h"

namespace tierkv {

struct ServeArgs {
  __gm__ int32_t *lanes, *index;
  __gm__ int8_t *kind;
  __gm__ uint8_t *fresh, *pool, *backing, *out;
};

// Each core serves a stretch of entries, which may begin and end within a query. A repeat is copied
// from `out` once all cores have served the rest: a miss is read from backing once, however often it
// is asked for and whichever cores serve it.
template <typename Tiling>
class Serve {
 public:
  __aicore__ inline Serve(const ServeArgs &args, const Tiling &tiling) : a_(args), t_(tiling) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    copier_.Init(pipe, t_.rowBytes, t_.batchRows);
    eraser_.Init(pipe, t_.eraserBytes);
    kinds_ = Take<uint64_t>(pipe, kTile / kWord);
    index_ = Take<int32_t>(pipe, kTile);

    const Range mine = MyShare(t_.each, t_.more);
    for (uint32_t entry = mine.first; entry < mine.last; entry += tile_.count) {
      OpenTile(entry, mine.last);
      ServeTile();
    }
    eraser_.Flush();
    copier_.Flush();
    AscendC::SyncAll<true>();
    for (uint32_t entry = mine.first; entry < mine.last; entry += tile_.count) {
      OpenTile(entry, mine.last);
      RepeatTile();
    }
    copier_.Close();
  }

 private:
  static constexpr uint32_t kTile = 2048;
  static constexpr uint32_t kWord = 8;  // kinds that the scalar unit reads at once
  static constexpr uint64_t kEachByte = 0x0101010101010101;
  static_assert(kKindEmpty == 0, "a word of empty entries is 0");

  // Entries of one row of the batch, where they come from and go to.
  struct Tile {
    uint32_t first = 0, count = 0;
    __gm__ uint8_t *fresh, *pool, *out, *outRow;  // of the row, of its lane, of `first`, of the row
  };

  // Bring in the tile that starts at `entry`; a core with a single one has it already the second time.
  __aicore__ inline void OpenTile(uint32_t entry, uint32_t last) {
    if (tile_.count > 0 && tile_.first == entry) return;
    const uint32_t row = entry / t_.entries;
    tile_.first = entry;
    tile_.count = Least(Least((row + 1) * t_.entries, last) - entry, kTile);
    Fence<AscendC::HardEvent::S_MTE2>();
    Load(kinds_.ReinterpretCast<int8_t>(), a_.kind + entry, tile_.count);
    Load(index_, a_.index + entry, tile_.count);
    const int64_t lane = ReadGm(a_.lanes, row);  // -1 has no hits
    tile_.fresh = a_.fresh + uint64_t{row} * t_.queries * t_.rowBytes;
    tile_.pool = a_.pool + lane * t_.slots * t_.rowBytes;
    tile_.out = a_.out + uint64_t{entry} * t_.rowBytes;
    tile_.outRow = a_.out + uint64_t{row} * t_.entries * t_.rowBytes;
    Fence<AscendC::HardEvent::MTE2_S>();
  }

  __aicore__ inline void ServeTile() {
    for (uint32_t first = 0; first < tile_.count; first += kWord) {
      uint64_t kinds = kinds_.GetValue(first / kWord);
      const uint32_t last = Least(first + kWord, tile_.count);
      if (kinds == 0) {
        eraser_.Put(tile_.out + uint64_t{first} * t_.rowBytes, (last - first) * t_.rowBytes);
        continue;
      }
      for (uint32_t i = first; i < last; i += 2, kinds >>= 16) {
        const Pair index = ReadPair(index_, i / 2);
        ServeEntry(kinds & 0xff, index.first, i);
        if (i + 1 < last) ServeEntry(kinds >> 8 & 0xff, index.second, i + 1);
      }
    }
  }

  __aicore__ inline void ServeEntry(uint32_t kind, uint32_t index, uint32_t i) {
    if (kind == kKindRepeat) return;
    __gm__ uint8_t *to = tile_.out + uint64_t{i} * t_.rowBytes;
    if (kind == kKindEmpty) return eraser_.Put(to, t_.rowBytes);
    __gm__ uint8_t *from = kind == kKindHit ? tile_.pool : kind == kKindFresh ? tile_.fresh : a_.backing;
    copier_.Put(from + uint64_t{index} * t_.rowBytes, to);
  }

  __aicore__ inline void RepeatTile() {
    for (uint32_t first = 0; first < tile_.count; first += kWord) {
      uint64_t kinds = kinds_.GetValue(first / kWord);
      if (!HasRepeat(kinds)) continue;
      for (uint32_t i = first; i < Least(first + kWord, tile_.count); ++i, kinds >>= 8) {
        if ((kinds & 0xff) != kKindRepeat) continue;
        const int64_t place = index_.GetValue(i);
        copier_.Put(tile_.outRow + place * t_.rowBytes, tile_.out + uint64_t{i} * t_.rowBytes);
      }
    }
  }

  // Whether a byte is kKindRepeat: the others borrow nothing when 1 is taken from each.
  __aicore__ static inline bool HasRepeat(uint64_t kinds) {
    const uint64_t other = kinds ^ (kKindRepeat * kEachByte);
    return ((other - kEachByte) & ~other & (0x80 * kEachByte)) != 0;
  }

  const ServeArgs &a_;
  const Tiling &t_;
  RowCopier copier_;
  RowEraser eraser_;
  AscendC::LocalTensor<uint64_t> kinds_;
  Ints index_;
  Tile tile_;
};

}  // namespace tierkv
