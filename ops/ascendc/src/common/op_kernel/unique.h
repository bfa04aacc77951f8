// Where each of many ids stands first.
#pragma once

#include "tierkv_constants.h"
#include "vector.h"

namespace tierkv {

// A table has one place for each hash. The scalar pipe writes the pending entries' places into it, last
// entry first, one write an entry; then the vector pipe looks all of them up at once: who finds its own id
// at the place it gets has found the first entry with that id. The others met an id with the same hash, and
// go through another round; each round settles at least one id a hash.
class FirstPlaces {
 public:
  // Entries lie in `chunks` chunks of `chunk`, a multiple of 256; 4 times their number, and `table`, the size
  // of the table, are at most 2^16.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t chunk, uint32_t chunks, uint32_t table) {
    chunk_ = chunk, chunks_ = chunks;
    const uint32_t entries = chunk * chunks;
    ids = Take<int32_t>(pipe, entries), first = Take<int32_t>(pipe, entries);
    pending = Take<uint8_t>(pipe, entries / 8);
    table_ = Take<int32_t>(pipe, table);
    for (Ints &each : work) each = Take<int32_t>(pipe, chunk);
    hash_ = work[0], place_ = work[1], found_ = work[2], list_ = work[3], start_ = Take<int32_t>(pipe, chunk);
    match_ = Take<uint8_t>(pipe, chunk / 8), other_ = Take<uint8_t>(pipe, chunk / 8);
    AscendC::Duplicate(table_, 0, table);
    AscendC::Duplicate(first, 0, entries);
    AscendC::ArithProgression(start_, 0, static_cast<int32_t>(sizeof(int32_t)), chunk);
  }

  // Hashes are the bits of the product from `shift` on, less `low`; below `table` for all pending ids.
  __aicore__ inline void SetHash(uint32_t shift, uint32_t low) { shift_ = shift, low_ = static_cast<int32_t>(low); }

  __aicore__ inline void Hash(const Ints &to, const Ints &from, uint32_t n) const {
    AscendC::Muls(to, from, static_cast<int32_t>(static_cast<uint32_t>(kHashMultiplier)), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftRight(Words(to), Words(to), shift_, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(to, to, -low_, n);
  }

  // For each entry whose bit in `pending` is set, writes 4 times the place of the first one with its id to
  // `first`. `counts` are the entries of each chunk. Afterwards nothing is pending.
  __aicore__ inline void Find(const uint32_t *counts) {
    while (Scatter(counts)) {
      for (uint32_t chunk = 0; chunk < chunks_; ++chunk) {
        if (counts[chunk] > 0) Settle(chunk * chunk_, counts[chunk]);
      }
    }
  }

  // 4 times each entry's own place.
  __aicore__ inline void Places(const Ints &to, uint32_t at, uint32_t n) const {
    AscendC::Adds(to, start_, static_cast<int32_t>(at * sizeof(int32_t)), n);
  }

  Ints ids, first;
  Bits pending;
  Ints work[4];  // a chunk each; free for all use between calls of Find

 private:
  // Whether anything is pending. Places go from the last to the first, so that the first remains.
  __aicore__ inline bool Scatter(const uint32_t *counts) {
    bool any = false;
    for (uint32_t chunk = chunks_; chunk-- > 0;) {
      const uint32_t listed = counts[chunk] > 0 ? List(chunk * chunk_, counts[chunk]) : 0;
      if (listed == 0) continue;
      any = true;
      Fence<AscendC::HardEvent::V_S>();
      Write(listed);
      Fence<AscendC::HardEvent::S_V>();
    }
    return any;
  }

  // Hash and place of the pending entries in one word each.
  __aicore__ inline uint32_t List(uint32_t at, uint32_t n) {
    AscendC::PipeBarrier<PIPE_V>();
    Hash(hash_, ids[at], n);
    Places(place_, at, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftLeft(hash_, hash_, 16, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(hash_, hash_, place_, n);
    AscendC::PipeBarrier<PIPE_V>();
    return Compress(list_, hash_, pending[at / 8], n);
  }

  __aicore__ inline void Write(uint32_t listed) {
    if (listed % 2 != 0) Put(static_cast<uint32_t>(list_.GetValue(listed - 1)));
    for (uint32_t pair = listed / 2; pair-- > 0;) {
      const Pair both = ReadPair(list_, pair);
      Put(both.second);
      Put(both.first);
    }
  }

  __aicore__ inline void Put(uint32_t word) { table_.SetValue(word >> 16, static_cast<int32_t>(word & 0xffff)); }

  __aicore__ inline void Settle(uint32_t at, uint32_t n) {
    const Ints mine = ids[at], to = first[at];
    const Bits open = pending[at / 8];
    AscendC::PipeBarrier<PIPE_V>();
    Hash(hash_, mine, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftLeft(hash_, hash_, 2, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Gather(place_, table_, Words(hash_), 0, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Gather(found_, ids, Words(place_), 0, n);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(match_, found_, mine, n);
    AscendC::PipeBarrier<PIPE_V>();
    Both(match_, match_, open, n);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(to, match_, place_, to, n);
    Neither(other_, match_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Both(open, open, other_, n);
  }

  Ints table_, hash_, place_, found_, list_, start_;
  Bits match_, other_;
  uint32_t chunk_ = 0, chunks_ = 0, shift_ = 0;
  int32_t low_ = 0;
};

}  // namespace tierkv
