#include "bindings.hpp"
#include "gather.hpp"
#include "plan_call.hpp"
#include "plan_gather.hpp"

namespace nb = nanobind;

namespace tierkv {
namespace {

bool run_plan_gather(int threads, nb::handle ids, nb::handle lanes, nb::handle kv_len, nb::handle q_len,
                     nb::handle stable, nb::handle block_table, std::int64_t page, int first_row, bool across,
                     nb::handle id_at, nb::handle row_of, nb::handle out_ids, nb::handle kind, nb::handle index,
                     nb::handle length, nb::handle miss_id, nb::handle miss_from, nb::handle miss_count,
                     nb::handle source, nb::handle work, nb::handle work_count, nb::handle counters) {
  Reader read;
  const Array in = read.any(ids.ptr(), 3);
  GatherPlanArgs g;
  g.plan = read_plan(read, in, block_table, page, id_at, out_ids, kind, index, length, miss_id, miss_from,
                     miss_count, counters);
  const std::int64_t rows = g.plan.rows, entries = std::int64_t{g.plan.queries} * g.plan.top_k;
  g.plan.lanes = read.dense<std::int32_t>(lanes.ptr(), {rows});
  g.plan.kv_len = read.dense<std::int32_t>(kv_len.ptr(), {rows});
  g.plan.q_len = read.dense<std::int32_t>(q_len.ptr(), {rows});
  g.plan.stable = read.dense<std::int32_t>(stable.ptr(), {rows});
  g.first_row = first_row;
  g.across = across;
  g.row_of = read.dense<std::int32_t>(row_of.ptr(), {g.plan.slot_of.lanes});
  g.source = read.dense<std::int32_t>(source.ptr(), {rows});
  g.work = read.dense<std::int32_t>(work.ptr(), {rows, entries});
  g.work_count = read.dense<std::int32_t>(work_count.ptr(), {rows});
  const bool good = read.good && g.plan.slot_of.wide && g.plan.slot_of.positions >= entries;
  return run_if(good, [&] { return plan_gather(g, threads); });
}

bool run_place_gather(int, nb::handle lanes, nb::handle ids, nb::handle kind, nb::handle miss_from, int first_row,
                      nb::handle id_at, nb::handle row_of, nb::handle slot, nb::handle count, nb::handle counters) {
  Reader read;
  const Array in = read.any(ids.ptr(), 3);
  const std::int64_t b = in.shape[0], q = in.shape[1], k = in.shape[2];
  GatherPlaceArgs a;
  a.rows = static_cast<int>(b);
  a.entries = static_cast<int>(q * k);
  a.first_row = first_row;
  a.lanes = read.dense<std::int32_t>(lanes.ptr(), {b});
  a.ids = read.dense<std::int32_t>(ids.ptr(), {b, q, k});
  a.kind = read.dense<std::int8_t>(kind.ptr(), {b, q, k});
  a.miss_from = read.dense<std::int32_t>(miss_from.ptr(), {b, q * k});
  a.id_at = read.matrix<std::int32_t>(id_at.ptr());
  a.row_of = read.dense<std::int32_t>(row_of.ptr(), {a.id_at.rows});
  a.slot = read.dense<std::int32_t>(slot.ptr(), {b, q * k});
  a.count = read.dense<std::int32_t>(count.ptr(), {b});
  a.counters = read.dense<std::int64_t>(counters.ptr(), {kCounterCount});
  return run_if(read.good && a.id_at.columns >= a.entries, [&] { return place_gather(a); });
}

bool run_gather(int threads, nb::handle kind, nb::handle index, nb::handle length, nb::handle source,
                nb::handle work, nb::handle work_count, int first_row, nb::handle fresh, nb::handle backing,
                nb::handle buffer, nb::handle filled) {
  Reader read;
  const Array kinds = read.any(kind.ptr(), 3), full = read.any(filled.ptr(), 2);
  const std::int64_t b = kinds.shape[0], q = kinds.shape[1], k = kinds.shape[2];
  GatherArgs a;
  a.rows = static_cast<int>(b);
  a.queries = static_cast<int>(q);
  a.top_k = static_cast<int>(k);
  a.first_row = first_row;
  a.kind = read.dense<std::int8_t>(kind.ptr(), {b, q, k});
  a.index = read.dense<std::int32_t>(index.ptr(), {b, q, k});
  a.length = read.dense<std::int32_t>(length.ptr(), {b, q});
  a.source = read.dense<std::int32_t>(source.ptr(), {b});
  a.work = read.dense<std::int32_t>(work.ptr(), {b, q * k});
  a.work_count = read.dense<std::int32_t>(work_count.ptr(), {b});
  a.buffer_rows = full.shape[0];
  a.buffer_queries = full.shape[1];
  a.filled = read.dense<std::int32_t>(filled.ptr(), {a.buffer_rows, a.buffer_queries});
  a.parts = read.parts(buffer.ptr());
  for (nb::handle list : {fresh, backing}) read.parts(list.ptr(), a.parts);
  read.good = read.good && first_row >= 0 && first_row + b <= a.buffer_rows && q <= a.buffer_queries;
  for (int i = 0; read.good && i < a.parts; ++i) {
    const Array target = read.part(buffer.ptr(), i, 4), new_rows = read.part(fresh.ptr(), i, 3),
                far = read.part(backing.ptr(), i, 2);
    if (!read.good) break;
    read.good = target.has_shape({a.buffer_rows, a.buffer_queries, k}) && new_rows.has_shape({b, q}) &&
                (i == 0 || far.shape[0] == a.backing_rows);
    a.backing_rows = far.shape[0];
    const Rows rows = read.rows(target, 0, 1, target);
    a.part[i] = {read.rows(new_rows, 0, 1, target), read.rows(far, -1, 0, target),
                 {rows.at(0, a.buffer_queries - q), rows.outer, rows.inner, target.strides[2] * target.itemsize()},
                 target.row_bytes()};
  }
  return run_if(read.good, [&] { return gather(a, threads); });
}

}  // namespace

void bind_gather(nb::module_& m) {
  m.def("plan_gather", &run_plan_gather);
  m.def("place_gather", &run_place_gather);
  m.def("gather", &run_gather);
}

}  // namespace tierkv
