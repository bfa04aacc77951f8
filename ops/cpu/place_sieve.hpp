// SIEVE: arrival order, a hand that sifts out what was not hit since it last came by.
#pragma once

#include "place.hpp"
#include "queue.hpp"

namespace tierkv {

struct Sieve : PolicyBase {
  static constexpr int kRefused = kCounterSuperseded;
  QueueTables order;             // of occupied slots, in order of arrival
  Matrix<std::int32_t> hand;     // [lanes, 1], a slot, -1 is the oldest
  Matrix<std::int8_t> visited;   // [lanes, slots]

  bool fits(const PlaceArgs& a) const {
    return order.fits(a.id_at.rows, a.id_at.columns, a.id_at.columns) && hand.rows >= a.id_at.rows &&
           hand.columns == 1 && visited.rows >= a.id_at.rows && visited.columns == a.id_at.columns;
  }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    Turn turn(*this, lane.lane, lane.slots);
    for (int i = 0; i < lane.entries; ++i) {
      if (lane.hits(i)) turn.touch(lane.index[i]);
    }
    std::int32_t* free = at_least(Scratch::mine().order, lane.slots);
    const int frees = lane.take_free(std::min<std::int64_t>(lane.misses, lane.slots - turn.queue.count()), free);
    for (int i = 0; i < lane.misses; ++i) {
      lane.slot[i] = i < frees ? free[i] : turn.evict();
      turn.queue.append(lane.slot[i]);
      lane.forget(lane.id_at[lane.slot[i]]);
      lane.id_at[lane.slot[i]] = lane.miss_id[i];
    }
    lane.settle();
    for (int i = 0; i < lane.entries; ++i) {
      if (lane.hits(i)) turn.visited[lane.index[i]] |= turn.touched.has(lane.index[i]);
    }
  }

 private:
  // One lane during one step.
  struct Turn {
    Queue queue;
    std::int32_t& hand;
    std::int8_t* visited;
    MarkSet& touched;
    int touches = 0;

    Turn(const Sieve& sieve, std::int64_t lane, std::int64_t slots)
        : queue(sieve.order, lane), hand(*sieve.hand.row(lane)), visited(sieve.visited.row(lane)),
          touched(Scratch::mine().slots) {
      touched.begin(slots);
      if (hand >= slots) hand = -1;
    }

    void touch(std::int32_t slot) {
      touches += !touched.has(slot);
      touched.add(slot);
    }

    // Move the hand to the next victim and past it.
    std::int32_t evict() {
      if (queue.empty()) return 0;  // only if the tables lie
      std::int32_t at = hand >= 0 ? queue.place(hand) : queue.first();
      if (at < queue.first()) at = queue.first();
      for (std::int32_t slot = queue.number(at); touches < queue.count(); slot = queue.number(at)) {
        if (!visited[slot] && !touched.has(slot)) break;
        visited[slot] = 0;
        at = queue.behind(at);
        if (at == queue.end()) at = queue.first();
      }
      const std::int32_t next = queue.behind(at);
      hand = next < queue.end() ? queue.number(next) : -1;
      const std::int32_t slot = queue.take(at);
      visited[slot] = 0;
      touches -= touched.has(slot);
      touched.drop(slot);
      return slot;
    }
  };
};

}  // namespace tierkv
