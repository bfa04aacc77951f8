// Everything stays: the bound no policy can beat.
#pragma once

#include "place.hpp"

namespace tierkv {

struct Unbounded : PolicyBase {
  static std::int64_t id_bound(const PlaceArgs& a) { return std::min(a.slot_of.positions, a.id_at.columns); }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    for (int i = 0; i < lane.misses; ++i) {
      lane.occupy(lane.miss_id[i], lane.miss_id[i]);
      lane.slot[i] = lane.miss_id[i];
    }
  }
};

}  // namespace tierkv
