// LRU by step within sets; each id has two sets and enters where the older slot is.
#pragma once

#include "place.hpp"

namespace tierkv {

struct SetLru : PolicyBase {
  Matrix<std::int32_t> used;  // [lanes, sets * ways], the step that last used a slot, -1 if it is free
  Matrix<std::int32_t> now;   // [lanes, 1], number of the next step
  std::int64_t sets = 0, ways = 0;

  bool fits(const PlaceArgs& a) const {
    return sets >= 1 && ways >= 1 && sets * ways <= a.id_at.columns && used.rows >= a.id_at.rows &&
           now.rows >= a.id_at.rows && now.columns == 1;
  }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    std::int32_t* stamps = used.row(lane.lane);
    const std::int32_t step = (*now.row(lane.lane))++;
    for (int i = 0; i < lane.entries; ++i) {
      if (lane.hits(i) && lane.index[i] < sets * ways) stamps[lane.index[i]] = step;
    }
    for (int i = 0; i < lane.misses; ++i) {
      const std::int64_t slot = older(stamps, first_set(lane.miss_id[i]), second_set(lane.miss_id[i]));
      if (stamps[slot] >= step) continue;  // both sets were wholly used in this step
      stamps[slot] = step;
      lane.occupy(lane.miss_id[i], slot);
      lane.slot[i] = static_cast<std::int32_t>(slot);
    }
  }

 private:
  std::int64_t first_set(std::int32_t id) const { return set_of(id, static_cast<std::uint32_t>(sets), 0); }
  std::int64_t second_set(std::int32_t id) const {
    const auto hash = static_cast<std::uint32_t>(id) * static_cast<std::uint32_t>(kSecondHashMultiplier);
    return static_cast<std::int64_t>(std::uint64_t{hash} * static_cast<std::uint64_t>(sets) >> 32);
  }

  std::int64_t older(const std::int32_t* stamps, std::int64_t one, std::int64_t other) const {
    const std::int64_t a = oldest(stamps, one), b = oldest(stamps, other);
    return stamps[b] < stamps[a] ? b : a;
  }

  std::int64_t oldest(const std::int32_t* stamps, std::int64_t set) const {
    const std::int32_t* way = stamps + set * ways;
    return std::min_element(way, way + ways) - stamps;
  }
};

}  // namespace tierkv
