// Least recently used, one step at a time.
#pragma once

#include "place.hpp"

namespace tierkv {

struct Lru : PolicyBase {
  Matrix<std::int32_t> order;  // [lanes, slots], occupied slots from least to most recent, then -1

  bool fits(const PlaceArgs& a) const { return order.columns == a.id_at.columns && order.rows >= a.id_at.rows; }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    std::int32_t* recency = order.row(lane.lane);
    Scratch& scratch = Scratch::mine();
    mark_hits(lane, scratch.slots);
    std::int32_t* hit = at_least(scratch.order, 2 * lane.slots);
    std::int32_t* target = hit + lane.slots;  // slots for the kept misses, in that order
    const auto [others, hits] = split(recency, lane.slots, scratch.slots, hit);

    const int kept = static_cast<int>(std::min<std::int64_t>(lane.misses, lane.slots - hits));
    const int free = take_free(lane, kept, target);
    const int leaving = std::min(kept - free, others);
    std::copy(recency, recency + leaving, target + free);

    const int refused = lane.misses - kept;
    for (int i = 0; i < free + leaving; ++i) {
      lane.slot[refused + i] = target[i];
      lane.occupy(lane.miss_id[refused + i], target[i]);
    }
    std::int32_t* end = std::copy(recency + leaving, recency + others, recency);
    end = std::copy(target, target + free + leaving, end);
    end = std::copy(hit, hit + hits, end);
    std::fill(end, recency + lane.slots, -1);
  }

  template <class Slot>
  static void mark_hits(const PlaceRow<Slot>& lane, MarkSet& marks) {
    marks.begin(lane.slots + 1);
    for (int i = 0; i < lane.entries; ++i) marks.add(lane.hits(i) ? lane.index[i] : lane.slots);
  }

  struct Split {
    int others, hits;
  };

  // Move the slots not hit to the front and the others to `hit`, both in order.
  static Split split(std::int32_t* recency, std::int64_t slots, const MarkSet& marks, std::int32_t* hit) {
    Split n = {0, 0};
    for (std::int64_t i = 0; i < slots; ++i) {
      const std::int32_t slot = recency[i];
      if (slot < 0 || slot >= slots) continue;
      const bool is_hit = marks.has(slot);
      recency[n.others] = slot;
      hit[n.hits] = slot;
      n.others += !is_hit;
      n.hits += is_hit;
    }
    return n;
  }

  // The first free slots, at most `wanted`, ascending.
  template <class Slot>
  static int take_free(const PlaceRow<Slot>& lane, int wanted, std::int32_t* target) {
    constexpr int kStride = 16;  // looked at together: usually nothing is free
    int n = 0;
    for (std::int64_t from = 0; from < lane.slots && n < wanted; from += kStride) {
      const auto to = std::min<std::int64_t>(from + kStride, lane.slots);
      std::int32_t signs = 0;
      for (std::int64_t i = from; i < to; ++i) signs |= lane.id_at[i];
      for (std::int64_t i = from; signs < 0 && i < to && n < wanted; ++i) {
        if (lane.id_at[i] < 0) target[n++] = static_cast<std::int32_t>(i);
      }
    }
    return n;
  }
};

}  // namespace tierkv
