#include "bindings.hpp"
#include "lookup.hpp"
#include "plan_call.hpp"

namespace nb = nanobind;

namespace tierkv {
namespace {

bool run_plan(int threads, nb::handle ids, nb::handle lanes, nb::handle kv_len, nb::handle q_len,
              nb::handle stable, nb::handle block_table, std::int64_t page, nb::handle slot_of,
              nb::handle out_ids, nb::handle kind, nb::handle index, nb::handle length,
              nb::handle miss_id, nb::handle miss_from, nb::handle miss_count, nb::handle counters) {
  Reader read;
  const Array in = read.any(ids.ptr(), 3);
  PlanArgs a = read_plan(read, in, block_table, page, slot_of, out_ids, kind, index, length, miss_id, miss_from,
                         miss_count, counters);
  a.lanes = read.dense<std::int32_t>(lanes.ptr(), {a.rows});
  a.kv_len = read.dense<std::int32_t>(kv_len.ptr(), {a.rows});
  a.q_len = read.dense<std::int32_t>(q_len.ptr(), {a.rows});
  a.stable = read.dense<std::int32_t>(stable.ptr(), {a.rows});
  return run_if(read.good, [&] { return plan(a, threads); });
}

// The yardstick of the benchmarks: slot_of[ids] for one lane, one-dimensional tensors.
bool run_lookup(nb::handle slot_of, nb::handle ids, nb::handle out) {
  Reader read;
  const Array table = read.any(slot_of.ptr(), 1);
  const Array in = read.any(ids.ptr(), 1);
  const std::int64_t count = in.shape[0];
  const auto* id = read.dense<std::int32_t>(ids.ptr(), {count});
  auto* target = read.dense<std::int32_t>(out.ptr(), {count});
  const bool wide = table.holds(dlpack::kInt, 32);
  const bool good = read.good && table.dense_from(0) && (wide || table.holds(dlpack::kInt, 16));
  return run_if(good, [&] {
    wide ? lookup(reinterpret_cast<const std::int32_t*>(table.bytes()), id, count, target)
         : lookup(reinterpret_cast<const std::int16_t*>(table.bytes()), id, count, target);
    return true;
  });
}

}  // namespace

void bind_plan(nb::module_& m) {
  m.def("plan", &run_plan);
  m.def("lookup", &run_lookup);
}

}  // namespace tierkv
