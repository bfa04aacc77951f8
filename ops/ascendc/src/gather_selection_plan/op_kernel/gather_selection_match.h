// Which of a query's ids lie in its buffer already.
#pragma once

#include "tierkv_constants.h"
#include "vector.h"

namespace tierkv {

// The n-th time that an id is wanted it is found in the n-th place that holds it.
//
// A table has a place of the buffer for each hash. In a round the scalar pipe writes the open places into
// it, the last first, so that the lowest of those with one hash remains: one write a place. The vector pipe
// then looks all open entries up at once; whoever gets a place with its own id wants it. Of equal ids the
// first one takes it, by the same means: the entries are written to their places, the last first. Places
// that were in the table are closed, wanted or not. So places that share a hash take a round each, a few for
// distinct ids. What many equal ids leave goes one by one.
class GatherMatch {
 public:
  static constexpr uint32_t kTableBits = 13, kTable = 1u << kTableBits, kWorks = 5, kRounds = 8;

  // Arrays have `n` entries, a multiple of 64; `none` is -1; `work` are kWorks arrays in use during Find.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t n, const Ints &none, const Ints *work) {
    n_ = n, none_ = none;
    held = Take<int32_t>(pipe, n), entry_at = Take<int32_t>(pipe, n), place_of = Take<int32_t>(pipe, n);
    own = Take<int32_t>(pipe, n), table_ = Take<int32_t>(pipe, kTable);
    open = Take<uint8_t>(pipe, n / 8), live_ = Take<uint8_t>(pipe, n / 8);
    listed_ = Take<uint8_t>(pipe, n / 8), mine_ = Take<uint8_t>(pipe, n / 8), took_ = Take<uint8_t>(pipe, n / 8);
    hash_ = work[0], list_ = work[1], got_ = work[2], place_ = work[3], word_ = work[4];
    AscendC::ArithProgression(own, 0, static_cast<int32_t>(sizeof(int32_t)), n);
    AscendC::Duplicate(table_, 0, kTable);
  }

  // Finds those of `ids` whose bit in `open` is set among `held`, where -1 is no id, and uses `held` up.
  // Leaves in `open` those that were not found, in `place_of` 4 times the places of the others, and in
  // `entry_at` 4 times the entry that took a place; -1 elsewhere.
  __aicore__ inline void Find(const Ints &ids) {
    AscendC::Duplicate(entry_at, -1, n_);
    AscendC::Duplicate(place_of, -1, n_);
    AscendC::Maxs(got_, held, 0, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(live_, got_, held, n_);
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (!ListPlaces()) return;
      Want(ids);
      Settle();
    }
    OneByOne(ids);
  }

  Ints held, entry_at, place_of, own;  // `own` is 4 times each entry's number
  Bits open;

 private:
  __aicore__ inline void Hash(const Ints &ids) const {
    AscendC::Muls(hash_, ids, static_cast<int32_t>(static_cast<uint32_t>(kHashMultiplier)), n_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftRight(Words(hash_), Words(hash_), 32 - kTableBits, n_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Writes the open places into the table; false if there are none. Leaves in listed_ those that remained.
  __aicore__ inline bool ListPlaces() {
    Hash(held);
    AscendC::ShiftLeft(word_, hash_, 16, n_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(word_, word_, own, n_);
    AscendC::ShiftLeft(hash_, hash_, 2, n_);
    AscendC::PipeBarrier<PIPE_V>();
    if (!Scatter(table_, live_)) return false;
    AscendC::Gather(got_, table_, Words(hash_), 0, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(listed_, got_, own, n_);
    return true;
  }

  // Bits of the open entries that find their own id where the table says to mine_, those places to place_.
  __aicore__ inline void Want(const Ints &ids) {
    Hash(ids);
    AscendC::ShiftLeft(hash_, hash_, 2, n_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Gather(place_, table_, Words(hash_), 0, n_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Gather(got_, held, Words(place_), 0, n_);
    AscendC::ShiftLeft(word_, place_, 14, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(mine_, got_, ids, n_);
    AscendC::Add(word_, word_, own, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Both(mine_, mine_, open, n_);
  }

  // Lets the first of those that want a place have it, and closes the places that were in the table.
  __aicore__ inline void Settle() {
    Choose(held, listed_, none_, held, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Neither(listed_, listed_, n_);
    if (Scatter(entry_at, mine_)) {
      AscendC::Gather(got_, entry_at, Words(place_), 0, n_);
      AscendC::PipeBarrier<PIPE_V>();
      Equal(took_, got_, own, n_);
      AscendC::PipeBarrier<PIPE_V>();
      Both(mine_, mine_, took_, n_);
      AscendC::PipeBarrier<PIPE_V>();
      Choose(place_of, mine_, place_, place_of, n_);
      Neither(took_, mine_, n_);
      AscendC::PipeBarrier<PIPE_V>();
      Both(open, open, took_, n_);
    }
    AscendC::PipeBarrier<PIPE_V>();
    Both(live_, live_, listed_, n_);
  }

  // The table has the first of a list of places for each hash, got_ the next of each, -1 at the end.
  __aicore__ inline void OneByOne(const Ints &ids) {
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Duplicate(table_, -1, kTable);
    const uint32_t places = Compress(list_, own, live_, n_), entries = Compress(word_, own, open, n_);
    Fence<AscendC::HardEvent::V_S>();
    for (uint32_t i = places; i-- > 0;) {
      const uint32_t place = static_cast<uint32_t>(list_.GetValue(i)) / 4, slot = HashOf(held.GetValue(place));
      got_.SetValue(place, table_.GetValue(slot));
      table_.SetValue(slot, static_cast<int32_t>(place));
    }
    for (uint32_t i = 0; i < entries; ++i) {
      const uint32_t entry = static_cast<uint32_t>(word_.GetValue(i)) / 4;
      const int32_t place = Unlink(ids.GetValue(entry));
      if (place < 0) continue;
      entry_at.SetValue(static_cast<uint32_t>(place), static_cast<int32_t>(4 * entry));
      place_of.SetValue(entry, 4 * place);
    }
    Fence<AscendC::HardEvent::S_V>();
    AscendC::Duplicate(table_, 0, kTable);
    AscendC::Maxs(got_, place_of, 0, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(took_, got_, place_of, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Neither(took_, took_, n_);
    AscendC::PipeBarrier<PIPE_V>();
    Both(open, open, took_, n_);
  }

  // Takes the first place with an id off its list; -1 if there is none.
  __aicore__ inline int32_t Unlink(int32_t id) {
    const uint32_t slot = HashOf(id);
    int32_t before = -1, place = table_.GetValue(slot);
    while (place >= 0 && held.GetValue(static_cast<uint32_t>(place)) != id) {
      before = place;
      place = got_.GetValue(static_cast<uint32_t>(place));
    }
    if (place < 0) return -1;
    const int32_t next = got_.GetValue(static_cast<uint32_t>(place));
    before < 0 ? table_.SetValue(slot, next) : got_.SetValue(static_cast<uint32_t>(before), next);
    return place;
  }

  __aicore__ inline static uint32_t HashOf(int32_t id) {
    return static_cast<uint32_t>(id) * static_cast<uint32_t>(kHashMultiplier) >> (32 - kTableBits);
  }

  // Writes the lower half of each word whose bit is set to the element of `to` that the upper half is, the
  // last first; false if there is none.
  __aicore__ inline bool Scatter(const Ints &to, const Bits &bits) {
    const uint32_t count = Compress(list_, word_, bits, n_);
    if (count == 0) return false;
    Fence<AscendC::HardEvent::V_S>();
    if (count % 2 != 0) Put(to, static_cast<uint32_t>(list_.GetValue(count - 1)));
    for (uint32_t pair = count / 2; pair-- > 0;) {
      const Pair both = ReadPair(list_, pair);
      Put(to, both.second);
      Put(to, both.first);
    }
    Fence<AscendC::HardEvent::S_V>();
    return true;
  }

  __aicore__ inline static void Put(const Ints &to, uint32_t word) {
    to.SetValue(word >> 16, static_cast<int32_t>(word & 0xffff));
  }

  uint32_t n_ = 0;
  Ints none_, table_, hash_, list_, got_, place_, word_;
  Bits live_, listed_, mine_, took_;
};

}  // namespace tierkv
