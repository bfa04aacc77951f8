#include "belady.hpp"
#include "bindings.hpp"
#include "choose.hpp"
#include "plan_call.hpp"
#include "replay.hpp"

namespace nb = nanobind;

namespace tierkv {
namespace {

struct ReplayWith {
  const ReplayArgs& args;
  std::int64_t operator()(const std::monostate&) const { return -1; }
  template <class Policy>
  std::int64_t operator()(const Policy& policy) const {
    return replay(args, policy);
  }
};

// Give how many steps ran, -1 if the arguments are not laid out as the kernels need it. `ids` is
// [steps, B, Q, K] and `batch` [4, steps, B], lanes, kv_len, q_len and stable, of which `lanes` are
// the first step's; the other arguments are those of `plan` and `place`.
std::int64_t run_replay(const char* policy, nb::handle arguments, nb::handle ids, nb::handle batch,
                        nb::handle lanes, nb::handle block_table, std::int64_t page, nb::handle out_ids,
                        nb::handle kind, nb::handle index, nb::handle length, nb::handle miss_id,
                        nb::handle miss_from, nb::handle miss_count, nb::handle tables, nb::handle slot,
                        nb::handle count, nb::handle counters, nb::handle tally) {
  PlaceCall call(lanes, kind, index, miss_id, miss_from, miss_count, tables, slot, count, counters);
  const AnyPolicy chosen = choose(policy, call, arguments);
  if (!call.read.good) return -1;
  const Array in = call.read.any(ids.ptr(), 4);
  const std::int64_t steps = in.shape[0], b = in.shape[1];
  ReplayArgs a;
  a.steps = steps;
  a.ids_step = in.strides[0];
  a.plan = read_plan(call.read, in, block_table, page, nb::handle(call.table(0)), out_ids, kind, index, length,
                     miss_id, miss_from, miss_count, counters);
  const auto* rows = call.read.dense<std::int32_t>(batch.ptr(), {4, steps, b});
  a.tally = call.read.dense<std::int32_t>(tally.ptr(), {steps, kTally});
  if (!call.read.good || rows != call.a.lanes) return -1;
  a.plan.lanes = rows;
  a.plan.kv_len = rows + steps * b;
  a.plan.q_len = rows + 2 * steps * b;
  a.plan.stable = rows + 3 * steps * b;
  a.place = call.a;
  nb::gil_scoped_release release;
  return std::visit(ReplayWith{a}, chosen);
}

// `ids` [steps, lanes, entries], -1 is none; `forget` [steps, lanes], the position from which on a lane
// forgets before a step; `last` [lanes, positions] int64; `next` [all steps, lanes, entries], of which
// `start` is the first of these.
bool run_link(nb::handle ids, nb::handle forget, std::int64_t start, nb::handle last, nb::handle next) {
  Reader read;
  const Array in = read.any(ids.ptr(), 3), out = read.any(next.ptr(), 3);
  const std::int64_t steps = in.shape[0], lanes = in.shape[1], entries = in.shape[2];
  const auto* id = read.dense<std::int32_t>(ids.ptr(), {steps, lanes, entries});
  const auto* from = read.dense<std::int32_t>(forget.ptr(), {steps, lanes});
  auto* target = read.dense<std::int32_t>(next.ptr(), {out.shape[0], lanes, entries});
  const Array known = read.any(last.ptr(), 2);
  auto* met = read.dense<std::int64_t>(last.ptr(), {lanes, known.shape[1]});
  const std::int64_t positions = known.shape[1];
  const bool inside = std::all_of(id, id + (read.good ? steps * lanes * entries : 0),
                                  [&](std::int32_t i) { return i < positions; });
  return run_if(read.good && inside && start >= 0 && start + steps <= out.shape[0], [&] {
    for (std::int64_t s = 0; s < steps; ++s) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        std::int64_t* mine = met + lane * positions;
        const auto kept = std::clamp<std::int64_t>(from[s * lanes + lane], 0, positions);
        std::fill(mine + kept, mine + positions, -1);
        link_step(start + s, lane, id + (s * lanes + lane) * entries, entries, lanes * entries, mine, target);
      }
    }
    return true;
  });
}

// The lanes of a group.
struct BeladyLanes {
  std::vector<Belady> lanes;
  std::int64_t positions;

  BeladyLanes(int count, std::int64_t positions_, std::int64_t slots)
      : lanes(count, Belady(positions_, slots)), positions(positions_) {}

  // As for link, with `next` of these steps alone. Adds to `counts` [6] int64, see BeladyCounts.
  bool run(nb::handle ids, nb::handle next, nb::handle forget, std::int64_t start, nb::handle tally, nb::handle counts) {
    Reader read;
    const Array in = read.any(ids.ptr(), 3);
    const std::int64_t steps = in.shape[0], rows = in.shape[1], entries = in.shape[2];
    const auto* id = read.dense<std::int32_t>(ids.ptr(), {steps, rows, entries});
    const auto* when = read.dense<std::int32_t>(next.ptr(), {steps, rows, entries});
    const auto* from = read.dense<std::int32_t>(forget.ptr(), {steps, rows});
    auto* step_tally = read.dense<std::int32_t>(tally.ptr(), {steps, kTally});
    auto* total = read.dense<std::int64_t>(counts.ptr(), {6});
    const bool inside = std::all_of(id, id + (read.good ? steps * rows * entries : 0),
                                    [&](std::int32_t i) { return i < positions; });
    return run_if(read.good && inside && rows == static_cast<std::int64_t>(lanes.size()), [&] {
      for (std::int64_t s = 0; s < steps; ++s) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t at = s * rows + row;
          lanes[row].forget(from[at]);
          const BeladyCounts n = lanes[row].step(static_cast<std::int32_t>(start + s), id + at * entries,
                                                 when + at * entries, entries);
          step_tally[s * kTally + kTallyHits] += static_cast<std::int32_t>(n.hits);
          step_tally[s * kTally + kTallyMisses] += static_cast<std::int32_t>(n.misses);
          const std::int64_t each[] = {n.hits, n.misses, n.unique_hits, n.unique_misses, n.installs, n.bypassed};
          for (int i = 0; i < 6; ++i) total[i] += each[i];
        }
      }
      return true;
    });
  }
};

}  // namespace

void bind_replay(nb::module_& m) {
  m.def("replay", &run_replay);
  m.def("link", &run_link);
  nb::class_<BeladyLanes>(m, "Belady").def(nb::init<int, std::int64_t, std::int64_t>()).def("run", &BeladyLanes::run);
}

}  // namespace tierkv
