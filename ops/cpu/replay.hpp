// Many steps of one policy without Python between them: `plan` and `place` of every row, as served.
#pragma once

#include "place.hpp"
#include "plan.hpp"

namespace tierkv {

struct ReplayArgs {
  std::int64_t steps = 0;
  std::int64_t ids_step = 0;  // elements from one step's ids to the next
  PlanArgs plan;              // of the first step; lanes, kv_len, q_len and stable go on, [steps, rows]
  PlaceArgs place;            // of the same buffers; lanes like plan's
  std::int32_t* tally = nullptr;  // [steps, kTally], what each step counted
};

// Columns of `tally`.
enum Tally { kTallyHits, kTallyMisses, kTally };

template <class Slot, class Policy>
std::int64_t replay_steps(const ReplayArgs& args, const Policy& policy) {
  PlanArgs plan = args.plan;
  PlaceArgs placed = args.place;
  PlanCounts total;
  std::int64_t installs = 0, offered = 0, step = 0;
  for (; step < args.steps; ++step) {
    PlanCounts counts;
    for (int row = 0; row < plan.rows; ++row) PlanRow<Slot>(plan, row, counts).plan();
    if (!placeable(placed, policy.id_bound(placed))) break;
    for (int row = 0; row < plan.rows; ++row) {
      const Placed n = place_row<Slot>(placed, policy, row);
      installs += n.installs;
      offered += n.offered;
    }
    args.tally[step * kTally + kTallyHits] = static_cast<std::int32_t>(counts.hits());
    args.tally[step * kTally + kTallyMisses] = static_cast<std::int32_t>(counts.misses);
    total += counts;
    plan.ids += args.ids_step;
    plan.lanes += plan.rows;
    plan.kv_len += plan.rows;
    plan.q_len += plan.rows;
    plan.stable += plan.rows;
    placed.lanes = plan.lanes;
  }
  count_plan(args.plan.counters, total);
  add(args.plan.counters, kCounterSteps, step);
  add(args.plan.counters, kCounterInstalls, installs);
  add(args.plan.counters, Policy::kRefused, offered - installs);
  return step;
}

// Give how many steps ran: all, unless one names a lane or an id that does not exist.
template <class Policy>
std::int64_t replay(const ReplayArgs& a, const Policy& policy) {
  const std::int64_t lanes = std::min(a.plan.slot_of.lanes, a.place.id_at.rows);
  if (!policy.fits(a.place) || !lanes_known(a.plan.lanes, a.steps * a.plan.rows, lanes)) return 0;
  return a.plan.slot_of.wide ? replay_steps<std::int32_t>(a, policy) : replay_steps<std::int16_t>(a, policy);
}

}  // namespace tierkv
