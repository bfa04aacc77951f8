// Keep the last selection only, as the DeepSeek V3.2 gather does.
#pragma once

#include "place.hpp"

namespace tierkv {

struct LastStep : PolicyBase {
  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    const int last = lane.entries - lane.top_k;  // where the last query starts
    MarkSet& marks = Scratch::mine().slots;
    marks.begin(lane.slots);
    for (int i = last; i < lane.entries; ++i) {
      if (lane.hits(i)) marks.add(lane.index[i]);
    }
    for (std::int64_t slot = 0; slot < lane.slots; ++slot) {
      if (!marks.has(slot)) lane.vacate(slot);
    }
    mark_repeats(lane, last, marks);
    std::int64_t free = 0;
    for (int i = 0; i < lane.misses; ++i) {
      const std::int32_t from = lane.miss_from[i];
      if (from < last && !marks.has(std::max(from, 0))) continue;
      while (free < lane.slots && lane.id_at[free] >= 0) ++free;
      if (free == lane.slots) return;
      lane.occupy(lane.miss_id[i], free);
      lane.slot[i] = static_cast<std::int32_t>(free);
    }
  }

  // Note the places of those misses of earlier queries that the last one selects too.
  template <class Slot>
  static void mark_repeats(const PlaceRow<Slot>& lane, int last, MarkSet& marks) {
    marks.begin(lane.entries);
    for (int i = last; i < lane.entries; ++i) {
      const std::int32_t first = lane.index[i];
      if (lane.kind[i] == kKindRepeat && first >= 0 && first < lane.entries) marks.add(first);
    }
  }
};

}  // namespace tierkv
