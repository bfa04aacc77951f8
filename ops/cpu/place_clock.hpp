// CLOCK within sets of up to 64 ways, decided step by step: a way hit in this step leaves only if
// all ways of its set were. A newcomer starts unvisited.
#pragma once

#include "place.hpp"

namespace tierkv {

// Sets of W ways in one word; way 0 is bit 0.
struct PartWord {
  int ways;
  std::uint64_t all;

  explicit PartWord(int w) : ways(w), all(~std::uint64_t{0} >> (64 - w)) {}

  std::uint64_t right(std::uint64_t v, int n) const { return (v >> n | v << ((ways - n) & 63)) & all; }
  std::uint64_t left(std::uint64_t v, int n) const { return (v << n | v >> ((ways - n) & 63)) & all; }
};

// The same for 64 ways, a fifth faster.
struct FullWord {
  static constexpr int ways = 64;
  static constexpr std::uint64_t all = ~std::uint64_t{0};

  static std::uint64_t right(std::uint64_t v, int n) { return v >> n | v << ((64 - n) & 63); }
  static std::uint64_t left(std::uint64_t v, int n) { return v << n | v >> ((64 - n) & 63); }
};

// One bit a slot, however wide the sets are: marking a hit needs no division.
class SlotBits {
 public:
  explicit SlotBits(std::int64_t slots) : words_(slots / 64 + 2) {
    bits_ = at_least(Scratch::mine().bits, words_);
    std::fill(bits_, bits_ + words_, std::uint64_t{0});
  }

  // `slot` may be one past the last.
  void mark(std::uint32_t slot, bool on) { bits_[slot >> 6] |= std::uint64_t{on} << (slot & 63); }
  void clear(std::int64_t slot) { bits_[slot >> 6] &= ~(std::uint64_t{1} << (slot & 63)); }

  // The `ways` bits from `slot` on.
  std::uint64_t read(std::int64_t slot, std::uint64_t all) const {
    const std::uint64_t* word = bits_ + (slot >> 6);
    const int shift = slot & 63;
    const std::uint64_t high = shift == 0 ? 0 : word[1] << (64 - shift);
    return (word[0] >> shift | high) & all;
  }

 private:
  std::int64_t words_;
  std::uint64_t* bits_;
};

struct Clock : PolicyBase {
  static constexpr int kRefused = kCounterSuperseded;
  Matrix<std::int32_t> hand;     // [lanes, sets]
  Matrix<std::int64_t> visited;  // [lanes, sets], bit w is way w
  int hashing = 0;

  bool fits(const PlaceArgs& a) const {
    return hand.columns >= 1 && hand.columns <= a.id_at.columns && hand.rows >= a.id_at.rows &&
           a.id_at.columns / hand.columns <= 64;
  }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    const int ways = static_cast<int>(lane.slots / hand.columns);
    ways == FullWord::ways ? place_in(lane, FullWord()) : place_in(lane, PartWord(ways));
  }

  // Only hits set a bit, and slots that do not exist one behind the last; no branch depends on
  // which entries hit, because no predictor can know.
  template <class Slot>
  static void mark_hits(const PlaceRow<Slot>& lane, SlotBits& touched) {
    const auto slots = static_cast<std::uint32_t>(lane.slots);
#pragma GCC unroll 8
    for (int i = 0; i < lane.entries; ++i) {
      touched.mark(std::min(static_cast<std::uint32_t>(lane.index[i]), slots), lane.kind[i] == kKindHit);
    }
  }

 private:
  template <class Slot, class Word>
  void place_in(PlaceRow<Slot>& lane, const Word word) const {
    auto* seen = reinterpret_cast<std::uint64_t*>(visited.row(lane.lane));
    SlotBits touched(lane.slots);
    mark_hits(lane, touched);
    turn(lane, touched, word, seen);
    lane.settle();
    for (std::int64_t set = 0; set < hand.columns; ++set) {
      seen[set] |= touched.read(set * word.ways, word.all);
    }
  }

  // Let each miss take its way in id_at, and the occupant leave.
  template <class Slot, class Word>
  void turn(PlaceRow<Slot>& lane, SlotBits touched, const Word word, std::uint64_t* seen) const {
    const auto sets = static_cast<std::uint32_t>(hand.columns);
    const int misses = lane.misses, hash = hashing;
    const std::int32_t* ids = lane.miss_id;
    std::int32_t *hands = hand.row(lane.lane), *id_at = lane.id_at, *slots = lane.slot;
    for (int i = 0; i < misses; ++i) {
      const std::uint32_t set = set_of(ids[i], sets, hash);
      const std::int64_t first = std::int64_t{set} * word.ways;
      const std::int64_t slot = first + advance(seen[set], hands[set], touched.read(first, word.all), word);
      touched.clear(slot);
      lane.forget(id_at[slot]);
      id_at[slot] = ids[i];
      slots[i] = static_cast<std::int32_t>(slot);
    }
  }

  // Take the first way from the hand on that is neither visited nor touched; the ways passed lose
  // their visited bit. If all are one or the other, all visited bits go and touched decides.
  template <class Word>
  static int advance(std::uint64_t& visited, std::int32_t& hand, std::uint64_t touched, const Word& w) {
    const int p = hand >= 0 && hand < w.ways ? hand : 0;
    const std::uint64_t hit = w.right(touched, p), seen = w.right(visited, p);
    const bool full = (seen | hit) == w.all;
    std::uint64_t idle = ~(full ? hit : seen | hit) & w.all;
    idle |= idle == 0;  // all were hit: the way under the hand
    const int k = __builtin_ctzll(idle);
    const int way = p + k < w.ways ? p + k : p + k - w.ways;
    visited = w.left(full ? 0 : seen >> k << k, p) & ~(std::uint64_t{1} << way);
    hand = way + 1 == w.ways ? 0 : way + 1;
    return way;
  }
};

}  // namespace tierkv
