#include "bindings.hpp"
#include "place_call.hpp"

namespace nb = nanobind;

namespace tierkv {
namespace {

template <class Policy>
bool run(const PlaceCall& call, const Policy& policy, int threads) {
  return run_if(call.read.good, [&] { return place(call.a, policy, threads); });
}

bool run(const PlaceCall& call, const AnyPolicy& any, int threads) {
  return std::visit(
      [&](const auto& policy) {
        if constexpr (std::is_same_v<std::decay_t<decltype(policy)>, std::monostate>) return false;
        else return run(call, policy, threads);
      },
      any);
}

template <class Policy, Policy (*Read)(PlaceCall&, int)>
bool run_hashed(int threads, nb::handle lanes, nb::handle kind, nb::handle index, nb::handle miss_id,
                nb::handle miss_from, nb::handle miss_count, int hashing, nb::handle tables,
                nb::handle slot, nb::handle count, nb::handle counters) {
  PlaceCall call(lanes, kind, index, miss_id, miss_from, miss_count, tables, slot, count, counters);
  const Policy policy = Read(call, hashing);
  return run(call, policy, threads);
}

template <class Policy, Policy (*Read)(PlaceCall&)>
bool run_plain(int threads, nb::handle lanes, nb::handle kind, nb::handle index, nb::handle miss_id,
               nb::handle miss_from, nb::handle miss_count, nb::handle tables, nb::handle slot,
               nb::handle count, nb::handle counters) {
  PlaceCall call(lanes, kind, index, miss_id, miss_from, miss_count, tables, slot, count, counters);
  const Policy policy = Read(call);
  return run(call, policy, threads);
}

}  // namespace

void bind_place(nb::module_& m) {
  m.def("place_set_fifo", &run_hashed<SetFifo, read_set_fifo>);
  m.def("place_clock", &run_hashed<AnyPolicy, read_clock>);
  m.def("place_lru", &run_plain<Lru, read_lru>);
  m.def("place_set_lru", &run_plain<SetLru, read_set_lru>);
  m.def("place_sieve", &run_plain<Sieve, read_sieve>);
  m.def("place_s3_fifo", &run_plain<S3Fifo, read_s3_fifo>);
  m.def("place_last_step", &run_plain<LastStep, read_plain<LastStep>>);
  m.def("place_unbounded", &run_plain<Unbounded, read_plain<Unbounded>>);
}

}  // namespace tierkv
