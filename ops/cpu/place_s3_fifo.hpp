// S3-FIFO: a small queue filters, a main one keeps, ghosts remember who left early.
#pragma once

#include "place.hpp"
#include "queue.hpp"

namespace tierkv {

struct S3Fifo : PolicyBase {
  static constexpr int kRefused = kCounterSuperseded;
  static constexpr int kMost = 3, kPromoted = 2;
  QueueTables small, main;    // of slots
  QueueTables ghost;          // of ids
  Matrix<std::int8_t> uses;   // [lanes, slots]

  bool fits(const PlaceArgs& a) const {
    const std::int64_t lanes = a.id_at.rows, slots = a.id_at.columns;
    return small.fits(lanes, slots, 0) && main.fits(lanes, slots, 0) &&
           ghost.fits(lanes, ghost.items.columns / 2, a.slot_of.positions) &&
           ghost.ends.columns == ghost.end_from + 4 && uses.rows >= lanes && uses.columns == slots;
  }

  template <class Slot>
  void place(PlaceRow<Slot>& lane) const {
    Turn<Slot> turn(*this, lane);
    MarkSet& used = Scratch::mine().slots;
    used.begin(lane.slots);
    for (int i = 0; i < lane.entries; ++i) {
      if (!lane.hits(i) || used.has(lane.index[i])) continue;
      used.add(lane.index[i]);
      std::int8_t& uses = turn.uses[lane.index[i]];
      uses = std::min<std::int8_t>(uses + 1, kMost);
    }
    std::int32_t* free = at_least(Scratch::mine().order, lane.slots);
    const int frees = lane.take_free(
        std::min<std::int64_t>(lane.misses, lane.slots - turn.small.count() - turn.main.count()), free);
    for (int i = 0; i < lane.misses; ++i) {
      lane.slot[i] = turn.enter(lane.miss_id[i], i < frees ? free[i] : -1);
    }
    lane.settle();
  }

 private:
  // One lane during one step.
  template <class Slot>
  struct Turn {
    PlaceRow<Slot>& lane;
    Queue small, main, ghost;
    std::int32_t& full;  // whether anything ever left
    std::int8_t* uses;
    std::int64_t share;

    Turn(const S3Fifo& policy, PlaceRow<Slot>& row)
        : lane(row), small(policy.small, row.lane), main(policy.main, row.lane), ghost(policy.ghost, row.lane),
          full(policy.ghost.ends.row(row.lane)[policy.ghost.end_from + 3]), uses(policy.uses.row(row.lane)),
          share(std::max<std::int64_t>(row.slots / 10, 1)) {}

    // Let an id into a free slot, or in place of another if `slot` is -1.
    std::int32_t enter(std::int32_t id, std::int32_t slot) {
      const std::int32_t place = ghost.place(id);
      const bool known = place >= 0;
      if (known) ghost.take(place);
      while (slot < 0) {
        full = 1;
        if (small.empty() && main.empty()) return 0;  // only if the tables lie
        const bool from_main = main.count() > lane.slots - share || small.empty();
        slot = from_main ? evict_main() : evict_small();
      }
      const bool into_main = known || (!full && small.count() >= share);
      (into_main ? main : small).append(slot);
      lane.forget(lane.id_at[slot]);
      lane.id_at[slot] = id;
      uses[slot] = 0;
      return slot;
    }

    // The first that was not used enough; -1 if all move on to main.
    std::int32_t evict_small() {
      while (!small.empty()) {
        const std::int32_t slot = small.pop();
        if (uses[slot] < kPromoted) {
          remember(lane.id_at[slot]);
          return slot;
        }
        main.append(slot);
        uses[slot] = 0;
      }
      return -1;
    }

    // The first that was not used; the others pay one use to stay.
    std::int32_t evict_main() {
      for (;;) {
        const std::int32_t slot = main.pop();
        if (uses[slot] <= 0) return slot;
        --uses[slot];
        main.append(slot);
      }
    }

    void remember(std::int32_t id) {
      const std::int32_t most = ghost.room() / 2;
      if (most == 0 || id < 0 || id >= lane.positions) return;
      if (ghost.count() >= most && !ghost.empty()) ghost.pop();
      ghost.append(id);
    }
  };
};

}  // namespace tierkv
