// The arguments of the placement operators, read from Python.
#pragma once

#include <nanobind/nanobind.h>

#include "policies.hpp"
#include "tensor.hpp"

namespace tierkv {

// What every policy is given. The readers of single policies below take its further tables.
struct PlaceCall {
  Reader read;
  PlaceArgs a;
  PyObject* tables;

  PlaceCall(nanobind::handle lanes, nanobind::handle kind, nanobind::handle index,
            nanobind::handle miss_id, nanobind::handle miss_from, nanobind::handle miss_count,
            nanobind::handle tables_, nanobind::handle slot, nanobind::handle count,
            nanobind::handle counters)
      : tables(tables_.ptr()) {
    const Array kinds = read.any(kind.ptr(), 3);
    const std::int64_t b = kinds.shape[0], q = kinds.shape[1], k = kinds.shape[2];
    a.rows = static_cast<int>(b);
    a.entries = static_cast<int>(q * k);
    a.top_k = static_cast<int>(k);
    a.lanes = read.dense<std::int32_t>(lanes.ptr(), {b});
    a.kind = read.dense<std::int8_t>(kind.ptr(), {b, q, k});
    a.index = read.dense<std::int32_t>(index.ptr(), {b, q, k});
    a.miss_id = read.dense<std::int32_t>(miss_id.ptr(), {b, q * k});
    a.miss_from = read.dense<std::int32_t>(miss_from.ptr(), {b, q * k});
    a.miss_count = read.dense<std::int32_t>(miss_count.ptr(), {b});
    a.slot = read.dense<std::int32_t>(slot.ptr(), {b, q * k});
    a.count = read.dense<std::int32_t>(count.ptr(), {b});
    a.counters = read.dense<std::int64_t>(counters.ptr(), {kCounterCount});
  }

  // Read slot_of and id_at, if the policy has as many tables as given.
  bool has_tables(int count) {
    if (read.parts(tables, count) != count) return false;
    a.slot_of = read.slot_table(table(0));
    a.id_at = read.matrix<std::int32_t>(table(1));
    return read.good;
  }

  PyObject* table(int i) const { return PyList_GET_ITEM(tables, i); }
};

inline SetFifo read_set_fifo(PlaceCall& call, int hashing) {
  SetFifo policy;
  policy.hashing = hashing;
  if (call.has_tables(3)) policy.hand = call.read.matrix<std::int32_t>(call.table(2));
  return policy;
}

// Clock, or WideClock for more than one word of visited bits a set.
inline AnyPolicy read_clock(PlaceCall& call, int hashing) {
  if (!call.has_tables(4)) return {};
  const auto hand = call.read.matrix<std::int32_t>(call.table(2));
  const std::int64_t lanes = hand.rows, sets = hand.columns, words = call.read.any(call.table(3), 3).shape[2];
  auto* bits = call.read.dense<std::int64_t>(call.table(3), {lanes, sets, words});
  const Matrix<std::int64_t> visited = {bits, sets * words, lanes, sets * words};
  if (words == 1) {
    Clock policy;
    policy.hand = hand, policy.visited = visited, policy.hashing = hashing;
    return policy;
  }
  WideClock policy;
  policy.hand = hand, policy.visited = visited, policy.words = words, policy.hashing = hashing;
  return policy;
}

// Tables `i` to `i + 2`: items, at, ends.
inline QueueTables read_queue(PlaceCall& call, int i) {
  QueueTables queue;
  queue.items = call.read.matrix<std::int32_t>(call.table(i));
  queue.at = call.read.matrix<std::int32_t>(call.table(i + 1));
  queue.ends = call.read.matrix<std::int32_t>(call.table(i + 2));
  return queue;
}

inline Lru read_lru(PlaceCall& call) {
  Lru policy;
  if (call.has_tables(5)) policy.order = read_queue(call, 2);
  return policy;
}

inline Sieve read_sieve(PlaceCall& call) {
  Sieve policy;
  if (!call.has_tables(7)) return policy;
  policy.order = read_queue(call, 2);
  policy.hand = call.read.matrix<std::int32_t>(call.table(5));
  policy.visited = call.read.matrix<std::int8_t>(call.table(6));
  return policy;
}

inline S3Fifo read_s3_fifo(PlaceCall& call) {
  S3Fifo policy;
  if (!call.has_tables(8)) return policy;
  policy.small.items = call.read.matrix<std::int32_t>(call.table(2));
  policy.main.items = call.read.matrix<std::int32_t>(call.table(3));
  policy.ghost = read_queue(call, 4);
  policy.small.ends = policy.main.ends = policy.ghost.ends;
  policy.main.end_from = 3;
  policy.ghost.end_from = 6;
  policy.uses = call.read.matrix<std::int8_t>(call.table(7));
  return policy;
}

inline SetLru read_set_lru(PlaceCall& call) {
  SetLru policy;
  if (!call.has_tables(4)) return policy;
  const Array used = call.read.any(call.table(2), 3);
  const std::int64_t lanes = used.shape[0];
  policy.sets = used.shape[1];
  policy.ways = used.shape[2];
  auto* stamps = call.read.dense<std::int32_t>(call.table(2), {lanes, policy.sets, policy.ways});
  policy.used = {stamps, policy.sets * policy.ways, lanes, policy.sets * policy.ways};
  policy.now = call.read.matrix<std::int32_t>(call.table(3));
  return policy;
}

template <class Policy>
Policy read_plain(PlaceCall& call) {
  call.has_tables(2);
  return {};
}

}  // namespace tierkv
