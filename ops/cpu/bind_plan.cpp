#include "bindings.hpp"
#include "lookup.hpp"
#include "plan.hpp"

namespace nb = nanobind;

namespace tierkv {
namespace {

constexpr std::int64_t kMaxPlaces = 1 << 24;  // see FirstPlace

int bits_of(std::int64_t page, bool& good) {
  good = good && page > 0 && page <= (1 << 30) && (page & (page - 1)) == 0;
  return good ? __builtin_ctzll(page) : 0;
}

bool run_plan(int threads, nb::handle ids, nb::handle lanes, nb::handle kv_len, nb::handle q_len,
              nb::handle stable, nb::handle block_table, std::int64_t page, nb::handle slot_of,
              nb::handle out_ids, nb::handle kind, nb::handle index, nb::handle length,
              nb::handle miss_id, nb::handle miss_from, nb::handle miss_count, nb::handle counters) {
  Reader read;
  const Array in = read.any(ids.ptr(), 3);
  read.good = read.good && in.holds(dlpack::kInt, 32) && in.dense_from(2);
  const std::int64_t b = in.shape[0], q = in.shape[1], k = in.shape[2];
  PlanArgs a;
  a.rows = static_cast<int>(b);
  a.queries = static_cast<int>(q);
  a.top_k = static_cast<int>(k);
  a.ids = reinterpret_cast<const std::int32_t*>(in.bytes());
  a.ids_row = in.strides[0];
  a.ids_query = in.strides[1];
  a.lanes = read.dense<std::int32_t>(lanes.ptr(), {b});
  a.kv_len = read.dense<std::int32_t>(kv_len.ptr(), {b});
  a.q_len = read.dense<std::int32_t>(q_len.ptr(), {b});
  a.stable = read.dense<std::int32_t>(stable.ptr(), {b});
  a.block_table = read.matrix<std::int32_t>(block_table.ptr());
  a.page_bits = bits_of(page, read.good);
  a.slot_of = read.slot_table(slot_of.ptr());
  a.out_ids = read.dense<std::int32_t>(out_ids.ptr(), {b, q, k});
  a.kind = read.dense<std::int8_t>(kind.ptr(), {b, q, k});
  a.index = read.dense<std::int32_t>(index.ptr(), {b, q, k});
  a.length = read.dense<std::int32_t>(length.ptr(), {b, q});
  a.miss_id = read.dense<std::int32_t>(miss_id.ptr(), {b, q * k});
  a.miss_from = read.dense<std::int32_t>(miss_from.ptr(), {b, q * k});
  a.miss_count = read.dense<std::int32_t>(miss_count.ptr(), {b});
  a.counters = read.dense<std::int64_t>(counters.ptr(), {kCounterCount});
  const bool good = read.good && a.block_table.rows == b && a.block_table.columns > 0 &&
                    q * k < kMaxPlaces && a.block_table.columns <= kMaxRows >> a.page_bits;
  return run_if(good, [&] { return plan(a, threads); });
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
