// Set-associative FIFO, the published GLM-5.2 scheme; FIFO is its one-set case.
#pragma once

#include "place.hpp"

namespace tierkv {

struct SetFifo : PolicyBase {
  static constexpr int kRefused = kCounterSuperseded;
  Matrix<std::int32_t> hand;  // [lanes, sets]
  int hashing = 0;

  bool fits(const PlaceArgs& a) const {
    return hand.columns >= 1 && hand.columns <= a.id_at.columns && hand.rows >= a.id_at.rows;
  }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    const auto sets = static_cast<std::uint32_t>(hand.columns);
    const auto ways = static_cast<std::int32_t>(lane.slots / sets);
    std::int32_t* hands = hand.row(lane.lane);
    for (int i = 0; i < lane.misses; ++i) {
      const std::uint32_t set = set_of(lane.miss_id[i], sets, hashing);
      const std::int32_t way = hands[set] >= 0 && hands[set] < ways ? hands[set] : 0;
      hands[set] = way + 1 == ways ? 0 : way + 1;
      const std::int64_t slot = std::int64_t{set} * ways + way;
      lane.forget(lane.id_at[slot]);
      lane.id_at[slot] = lane.miss_id[i];
      lane.slot[i] = static_cast<std::int32_t>(slot);
    }
    lane.settle();
  }
};

}  // namespace tierkv
