// Least recently used, one step at a time.
#pragma once

#include "place.hpp"
#include "queue.hpp"

namespace tierkv {

struct Lru : PolicyBase {
  QueueTables order;  // of occupied slots, least recent first

  bool fits(const PlaceArgs& a) const { return order.fits(a.id_at.rows, a.id_at.columns, a.id_at.columns); }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    Queue queue(order, lane.lane);
    std::int32_t* hit = at_least(Scratch::mine().order, 2 * lane.slots);
    std::int32_t* target = hit + lane.slots;  // slots for the kept misses, in that order
    const int hits = take_hits(lane, queue, hit);
    const int kept = static_cast<int>(std::min<std::int64_t>(lane.misses, lane.slots - hits));
    int taken = lane.take_free(std::min<std::int64_t>(kept, lane.slots - hits - queue.count()), target);
    while (taken < kept && !queue.empty()) target[taken++] = queue.pop();

    queue.make_room(taken + hits);
    const int refused = lane.misses - taken;
    for (int i = 0; i < taken; ++i) {
      lane.slot[refused + i] = target[i];
      lane.occupy(lane.miss_id[refused + i], target[i]);
      queue.push(target[i]);
    }
    for (int i = 0; i < hits; ++i) queue.push(hit[i]);
  }

 private:
  // Take the slots that are hit out of the queue, each once and in its order. A bit a place sorts
  // them; the bits are zero between uses.
  template <class Slot>
  static int take_hits(const PlaceRow<Slot>& lane, Queue& queue, std::int32_t* hit) {
    std::uint64_t* bits = at_least(Scratch::mine().seen, queue.room() / 64 + 1);
    std::int32_t low = queue.room() / 64, high = -1;
    for (int i = 0; i < lane.entries; ++i) {
      const std::int32_t place = lane.hits(i) ? queue.place(lane.index[i]) : -1;
      if (place < 0) continue;
      bits[place >> 6] |= std::uint64_t{1} << (place & 63);
      low = std::min(low, place >> 6);
      high = std::max(high, place >> 6);
    }
    int hits = 0;
    for (std::int32_t word = low; word <= high; ++word) {
      for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
        hit[hits++] = queue.take(word * 64 + __builtin_ctzll(left));
      }
      bits[word] = 0;
    }
    return hits;
  }
};

}  // namespace tierkv
