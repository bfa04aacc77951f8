// What the placement kernels share: the residency tables of one lane, and the loop over rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "constants.hpp"
#include "plan.hpp"
#include "scratch.hpp"
#include "thread_pool.hpp"
#include "views.hpp"

namespace tierkv {

struct PlaceArgs {
  int rows = 0, entries = 0, top_k = 0;
  const std::int32_t* lanes = nullptr;
  const std::int8_t* kind = nullptr;
  const std::int32_t *index = nullptr, *miss_id = nullptr, *miss_from = nullptr, *miss_count = nullptr;
  SlotTable slot_of;
  Matrix<std::int32_t> id_at;
  std::int32_t *slot = nullptr, *count = nullptr;
  std::int64_t* counters = nullptr;
};

// One live row of a plan with the tables of its lane. `slot` receives the placement.
template <class Slot>
struct PlaceRow {
  std::int64_t lane;
  int entries, top_k, misses;
  std::int64_t positions, slots;
  const std::int8_t* kind;
  const std::int32_t *index, *miss_id, *miss_from;
  Slot* slot_of;
  std::int32_t *id_at, *slot;

  PlaceRow(const PlaceArgs& a, int row)
      : lane(a.lanes[row]), entries(a.entries), top_k(a.top_k), misses(a.miss_count[row]),
        positions(a.slot_of.positions), slots(a.id_at.columns) {
    const std::int64_t base = std::int64_t{row} * a.entries;
    kind = a.kind + base;
    index = a.index + base;
    miss_id = a.miss_id + base;
    miss_from = a.miss_from + base;
    slot_of = a.slot_of.row<Slot>(lane);
    id_at = a.id_at.row(lane);
    slot = a.slot + base;
  }

  // Whether entry `i` is served from a slot of the pool.
  bool hits(std::int64_t i) const {
    return kind[i] == kKindHit && static_cast<std::uint32_t>(index[i]) < slots;
  }

  void prefetch(std::int32_t id) const {
    __builtin_prefetch(slot_of + (id >= 0 && id < positions ? id : 0), 1, 3);
  }

  void forget(std::int32_t id) {
    if (id >= 0 && id < positions) slot_of[id] = -1;
  }

  void vacate(std::int64_t at) {
    forget(id_at[at]);
    id_at[at] = -1;
  }

  // Let `id` into slot `at`; the occupant leaves.
  void occupy(std::int32_t id, std::int64_t at) {
    forget(id_at[at]);
    slot_of[id] = static_cast<Slot>(at);
    id_at[at] = id;
  }

  // The first free slots, at most `wanted`, ascending.
  int take_free(std::int64_t wanted, std::int32_t* target) const {
    constexpr int kStride = 16;  // looked at together: usually nothing is free
    int n = 0;
    for (std::int64_t from = 0; from < slots && n < wanted; from += kStride) {
      const auto to = std::min<std::int64_t>(from + kStride, slots);
      std::int32_t signs = 0;
      for (std::int64_t i = from; i < to; ++i) signs |= id_at[i];
      for (std::int64_t i = from; signs < 0 && i < to && n < wanted; ++i) {
        if (id_at[i] < 0) target[n++] = static_cast<std::int32_t>(i);
      }
    }
    return n;
  }

  // For policies that place miss by miss: enter into slot_of those that no later one pushed out
  // again; the others lose their slot.
  void settle() {
    for (int i = 0; i < misses; ++i) {
      if (id_at[slot[i]] == miss_id[i]) {
        slot_of[miss_id[i]] = static_cast<Slot>(slot[i]);
      } else {
        slot[i] = -1;
      }
    }
  }
};

// The set of an id: multiplicative hash, or its low bits if `hashing` is 1.
inline std::uint32_t set_of(std::int32_t id, std::uint32_t sets, int hashing) {
  if (hashing == 1) return static_cast<std::uint32_t>(id) % sets;
  const std::uint32_t hash = static_cast<std::uint32_t>(id) * static_cast<std::uint32_t>(kHashMultiplier);
  return static_cast<std::uint32_t>(std::uint64_t{hash} * sets >> 32);
}

// Whether every lane and miss is inside the tables, and every slot in range of slot_of's type.
inline bool placeable(const PlaceArgs& a, std::int64_t id_bound) {
  if (!lanes_known(a.lanes, a.rows, std::min(a.slot_of.lanes, a.id_at.rows))) return false;
  if (!a.slot_of.wide && a.id_at.columns > std::numeric_limits<std::int16_t>::max() + 1) return false;
  for (int row = 0; row < a.rows; ++row) {
    if (a.lanes[row] < 0) continue;
    if (a.miss_count[row] < 0 || a.miss_count[row] > a.entries) return false;
    const std::int32_t* id = a.miss_id + std::int64_t{row} * a.entries;
    for (int i = 0; i < a.miss_count[row]; ++i) {
      if (id[i] < 0 || id[i] >= id_bound) return false;
    }
  }
  return true;
}

struct Placed {
  int offered, installs;
};

// Give how many misses were offered and how many of them installed.
template <class Slot, class Policy>
Placed place_row(const PlaceArgs& a, const Policy& policy, int row) {
  std::int32_t* slot = a.slot + std::int64_t{row} * a.entries;
  fill_minus_one(slot, a.entries);
  a.count[row] = 0;
  if (a.lanes[row] < 0) return {0, 0};
  PlaceRow<Slot> lane(a, row);
  policy.place(lane);
  const auto installs =
      static_cast<std::int32_t>(lane.misses - std::count(slot, slot + lane.misses, -1));
  a.count[row] = installs;
  return {lane.misses, installs};
}

// `policy.place(PlaceRow&)` decides one lane; lanes are distinct, so rows may run in any order.
// False, with nothing written, if the plan does not fit the tables.
template <class Policy>
bool place(const PlaceArgs& a, const Policy& policy, int threads) {
  if (!policy.fits(a) || !placeable(a, policy.id_bound(a))) return false;
  const std::int64_t entries = std::int64_t{a.rows} * a.entries;
  ThreadPool::shared().run(entries < 2 * kPlanGrain ? 1 : threads, a.rows, [&](std::int64_t row) {
    const Placed placed = a.slot_of.wide ? place_row<std::int32_t>(a, policy, static_cast<int>(row))
                                         : place_row<std::int16_t>(a, policy, static_cast<int>(row));
    add(a.counters, kCounterInstalls, placed.installs);
    add(a.counters, Policy::kRefused, placed.offered - placed.installs);
  });
  return true;
}

// What most policies answer to `place`.
struct PolicyBase {
  static constexpr int kRefused = kCounterBypassed;
  static bool fits(const PlaceArgs&) { return true; }
  static std::int64_t id_bound(const PlaceArgs& a) { return a.slot_of.positions; }
};

}  // namespace tierkv
