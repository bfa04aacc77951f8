#include "append.hpp"
#include "bindings.hpp"
#include "install_call.hpp"
#include "serve.hpp"

namespace nb = nanobind;

namespace tierkv {
namespace {

bool run_serve(int threads, nb::handle lanes, nb::handle kind, nb::handle index, nb::handle fresh,
               nb::handle pool, nb::handle backing, nb::handle out) {
  Reader read;
  const Array kinds = read.any(kind.ptr(), 3);
  const std::int64_t b = kinds.shape[0], q = kinds.shape[1], k = kinds.shape[2];
  ServeArgs a;
  a.rows = static_cast<int>(b);
  a.queries = static_cast<int>(q);
  a.entries = static_cast<int>(q * k);
  a.lanes = read.dense<std::int32_t>(lanes.ptr(), {b});
  a.kind = read.dense<std::int8_t>(kind.ptr(), {b, q, k});
  a.index = read.dense<std::int32_t>(index.ptr(), {b, q, k});
  a.parts = read.parts(out.ptr());
  for (nb::handle list : {fresh, pool, backing}) read.parts(list.ptr(), a.parts);
  for (int i = 0; read.good && i < a.parts; ++i) {
    const Array target = read.part(out.ptr(), i, 4), new_rows = read.part(fresh.ptr(), i, 3),
                near = read.part(pool.ptr(), i, 3), far = read.part(backing.ptr(), i, 2);
    if (!read.good) break;
    read.good = target.has_shape({b, q, k}) && new_rows.has_shape({b, q}) &&
                (i == 0 || near.has_shape({a.lane_count, a.slots})) &&
                (i == 0 || far.shape[0] == a.backing_rows);
    a.lane_count = near.shape[0];
    a.slots = near.shape[1];
    a.backing_rows = far.shape[0];
    a.part[i] = {read.rows(new_rows, 0, 1, target), read.rows(near, 0, 1, target),
                 read.rows(far, -1, 0, target), read.flat_places(target, target), target.row_bytes()};
  }
  return run_if(read.good, [&] { return serve(a, threads); });
}

bool run_install(int threads, nb::handle lanes, nb::handle miss_from, nb::handle miss_count,
                 nb::handle slot, nb::handle selection, nb::handle pool) {
  Reader read;
  const InstallArgs a = read_install(read, lanes, miss_from, miss_count, slot, selection, pool);
  return run_if(read.good, [&] { return install(a, threads); });
}

bool run_append(int, nb::handle parts, nb::handle rows, nb::handle fresh, nb::handle out) {
  Reader read;
  const Array places = read.any(rows.ptr(), 2);
  const std::int64_t b = places.shape[0], q = places.shape[1];
  AppendArgs a;
  a.rows = static_cast<int>(b);
  a.queries = static_cast<int>(q);
  a.place = read.dense<std::int32_t>(rows.ptr(), {b, q});
  const int count = read.parts(parts.ptr());
  a.kept = std::min(count, read.parts(fresh.ptr()));
  a.written = std::min(count, read.parts(out.ptr()));
  for (int i = 0; read.good && i < count; ++i) {
    const Array from = read.part(parts.ptr(), i, 3);
    read.good = read.good && from.has_shape({b, q});
    const Rows source = read.rows(from, 0, 1, from);
    if (i < a.kept) {
      const Array to = read.part(fresh.ptr(), i, 3);
      read.good = read.good && to.has_shape({b, q});
      a.keep[i] = {source, read.rows(to, 0, 1, from), from.row_bytes()};
    }
    if (i < a.written) {
      const Array to = read.part(out.ptr(), i, 2);
      read.good = read.good && (i == 0 || to.shape[0] == a.backing_rows);
      a.backing_rows = to.shape[0];
      a.write[i] = {source, read.rows(to, -1, 0, from), from.row_bytes()};
    }
  }
  return run_if(read.good, [&] { return append(a); });
}

// The yardstick of the benchmarks: as many contiguous bytes, by streaming stores, on one thread.
bool run_stream_copy(nb::handle to, nb::handle from) {
  Reader read;
  const Array target = read.any(to.ptr(), 1), source = read.any(from.ptr(), 1);
  const auto bytes = static_cast<std::size_t>(source.shape[0] * source.itemsize());
  const bool good = read.good && target.dense_from(0) && source.dense_from(0) &&
                    static_cast<std::size_t>(target.shape[0] * target.itemsize()) == bytes;
  return run_if(good, [&] {
    copy_row(target.bytes(), source.bytes(), bytes);
    stream_fence();
    return true;
  });
}

}  // namespace

void bind_move(nb::module_& m) {
  m.def("append", &run_append);
  m.def("serve", &run_serve);
  m.def("install", &run_install);
  m.def("stream_copy", &run_stream_copy);
}

}  // namespace tierkv
