// The arguments of `plan`, read from Python.
#pragma once

#include <nanobind/nanobind.h>

#include "plan.hpp"
#include "tensor.hpp"

namespace tierkv {

// All but the batch's own numbers, for `ids` [..., B, Q, K].
inline PlanArgs read_plan(Reader& read, const Array& ids, nanobind::handle block_table, std::int64_t page,
                          nanobind::handle slot_of, nanobind::handle out_ids, nanobind::handle kind,
                          nanobind::handle index, nanobind::handle length, nanobind::handle miss_id,
                          nanobind::handle miss_from, nanobind::handle miss_count, nanobind::handle counters) {
  constexpr std::int64_t kMaxPlaces = 1 << 24;  // see FirstPlace
  const int first = ids.ndim - 3;
  const std::int64_t b = ids.shape[first], q = ids.shape[first + 1], k = ids.shape[first + 2];
  read.good = read.good && ids.holds(dlpack::kInt, 32) && ids.dense_from(first + 2);
  read.good = read.good && page > 0 && page <= (1 << 30) && (page & (page - 1)) == 0;
  PlanArgs a;
  a.rows = static_cast<int>(b);
  a.queries = static_cast<int>(q);
  a.top_k = static_cast<int>(k);
  a.ids = reinterpret_cast<const std::int32_t*>(ids.bytes());
  a.ids_row = ids.strides[first];
  a.ids_query = ids.strides[first + 1];
  a.block_table = read.matrix<std::int32_t>(block_table.ptr());
  a.page_bits = read.good ? __builtin_ctzll(page) : 0;
  a.slot_of = read.slot_table(slot_of.ptr());
  a.out_ids = read.dense<std::int32_t>(out_ids.ptr(), {b, q, k});
  a.kind = read.dense<std::int8_t>(kind.ptr(), {b, q, k});
  a.index = read.dense<std::int32_t>(index.ptr(), {b, q, k});
  a.length = read.dense<std::int32_t>(length.ptr(), {b, q});
  a.miss_id = read.dense<std::int32_t>(miss_id.ptr(), {b, q * k});
  a.miss_from = read.dense<std::int32_t>(miss_from.ptr(), {b, q * k});
  a.miss_count = read.dense<std::int32_t>(miss_count.ptr(), {b});
  a.counters = read.dense<std::int64_t>(counters.ptr(), {kCounterCount});
  read.good = read.good && a.block_table.rows == b && a.block_table.columns > 0 && q * k < kMaxPlaces &&
              a.block_table.columns <= kMaxRows >> a.page_bits;
  return a;
}

}  // namespace tierkv
