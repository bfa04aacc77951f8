// The arguments of `install`, read from Python.
#pragma once

#include <nanobind/nanobind.h>

#include "install.hpp"
#include "tensor.hpp"

namespace tierkv {

inline InstallArgs read_install(Reader& read, nanobind::handle lanes, nanobind::handle miss_from,
                                nanobind::handle miss_count, nanobind::handle slot,
                                nanobind::handle selection, nanobind::handle pool) {
  const Array slots = read.any(slot.ptr(), 2);
  const std::int64_t b = slots.shape[0], entries = slots.shape[1];
  InstallArgs a;
  a.rows = static_cast<int>(b);
  a.entries = static_cast<int>(entries);
  a.lanes = read.dense<std::int32_t>(lanes.ptr(), {b});
  a.miss_from = read.dense<std::int32_t>(miss_from.ptr(), {b, entries});
  a.miss_count = read.dense<std::int32_t>(miss_count.ptr(), {b});
  a.slot = read.dense<std::int32_t>(slot.ptr(), {b, entries});
  a.parts = read.parts(pool.ptr());
  read.parts(selection.ptr(), a.parts);
  for (int i = 0; read.good && i < a.parts; ++i) {
    const Array from = read.part(selection.ptr(), i, 4), near = read.part(pool.ptr(), i, 3);
    if (!read.good) break;
    read.good = from.shape[0] == b && from.shape[1] * from.shape[2] == entries &&
                (i == 0 || near.has_shape({a.lane_count, a.slots}));
    a.lane_count = near.shape[0];
    a.slots = near.shape[1];
    a.part[i] = {read.flat_places(from, near), read.rows(near, 0, 1, near), near.row_bytes()};
  }
  return a;
}

}  // namespace tierkv
