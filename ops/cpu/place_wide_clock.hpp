// CLOCK within sets of more than 64 ways, as Clock: a set has several words of visited bits.
#pragma once

#include "place_clock.hpp"

namespace tierkv {

struct WideClock : PolicyBase {
  static constexpr int kRefused = kCounterSuperseded;
  Matrix<std::int32_t> hand;     // [lanes, sets]
  Matrix<std::int64_t> visited;  // [lanes, sets * words], bit w % 64 of word w / 64 is way w
  std::int64_t words = 0;
  int hashing = 0;

  bool fits(const PlaceArgs& a) const {
    return hand.columns >= 1 && hand.rows >= a.id_at.rows && visited.rows >= a.id_at.rows &&
           a.id_at.columns / hand.columns > 0 && (a.id_at.columns / hand.columns + 63) / 64 == words;
  }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    const auto sets = static_cast<std::uint32_t>(hand.columns);
    const auto ways = static_cast<std::int32_t>(lane.slots / sets);
    auto* seen = reinterpret_cast<std::uint64_t*>(visited.row(lane.lane));
    SlotBits touched(lane.slots);
    Clock::mark_hits(lane, touched);
    for (int i = 0; i < lane.misses; ++i) {
      const std::uint32_t set = set_of(lane.miss_id[i], sets, hashing);
      Set turn{seen + set * words, touched, std::int64_t{set} * ways, ways};
      const std::int64_t slot = turn.first + turn.advance(hand.row(lane.lane)[set]);
      lane.forget(lane.id_at[slot]);
      lane.id_at[slot] = lane.miss_id[i];
      lane.slot[i] = static_cast<std::int32_t>(slot);
    }
    lane.settle();
    for (std::uint32_t set = 0; set < sets; ++set) {
      const Set turn{seen + set * words, touched, std::int64_t{set} * ways, ways};
      for (std::int64_t word = 0; word < words; ++word) turn.seen[word] |= turn.hit(word);
    }
  }

 private:
  struct Set {
    std::uint64_t* seen;
    SlotBits& touched;
    std::int64_t first;  // slot of way 0
    std::int32_t ways;

    // The ways of a word that exist.
    std::uint64_t all(std::int64_t word) const {
      const std::int64_t left = ways - word * 64;
      return left >= 64 ? ~std::uint64_t{0} : ~(~std::uint64_t{0} << left);
    }

    std::uint64_t hit(std::int64_t word) const { return touched.read(first + word * 64, all(word)); }

    // Move the hand to the next victim and past it; give its way.
    std::int32_t advance(std::int32_t& hand) {
      const std::int32_t start = hand >= 0 && hand < ways ? hand : 0;
      std::int32_t way = pass(start, ways);
      if (way < 0) way = pass(0, start);
      if (way < 0) way = idle(start, ways);  // all were visited or touched; none is visited now
      if (way < 0) way = idle(0, start);
      if (way < 0) way = start;
      seen[way >> 6] &= ~(std::uint64_t{1} << (way & 63));
      touched.clear(first + way);
      hand = way + 1 == ways ? 0 : way + 1;
      return way;
    }

    // The first way of a range that is neither visited nor touched, -1 if there is none; those before
    // it lose their visited bit.
    std::int32_t pass(std::int32_t from, std::int32_t to) {
      for (std::int32_t word = from >> 6; word * 64 < to; ++word) {
        const std::uint64_t range = within(word, from, to), free = range & ~(seen[word] | hit(word));
        const std::uint64_t passed = free == 0 ? range : range & ((free & -free) - 1);
        seen[word] &= ~passed;
        if (free != 0) return word * 64 + __builtin_ctzll(free);
      }
      return -1;
    }

    std::int32_t idle(std::int32_t from, std::int32_t to) const {
      for (std::int32_t word = from >> 6; word * 64 < to; ++word) {
        const std::uint64_t free = within(word, from, to) & ~hit(word);
        if (free != 0) return word * 64 + __builtin_ctzll(free);
      }
      return -1;
    }

    // The bits of a word whose ways are from `from` to below `to`.
    static std::uint64_t within(std::int32_t word, std::int32_t from, std::int32_t to) {
      const std::int32_t low = std::max(from - word * 64, 0), high = std::min(to - word * 64, 64);
      if (low >= high) return 0;
      return ~std::uint64_t{0} >> (64 - (high - low)) << low;
    }
  };
};

}  // namespace tierkv
