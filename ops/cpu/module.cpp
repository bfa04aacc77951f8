// The native backend's Python module.

#include "bindings.hpp"
#include "thread_pool.hpp"

namespace nb = nanobind;

NB_MODULE(_native, m) {
  m.doc() = "Native CPU operators of tierkv.";
  m.def("version", [] { return TIERKV_VERSION; }, "Version of tierkv this module was built from.");
  m.def("reserve_threads", [](int threads) { tierkv::ThreadPool::shared().reserve(threads); });
  tierkv::bind_gather(m);
  tierkv::bind_plan(m);
  tierkv::bind_replay(m);
  tierkv::bind_place(m);
  tierkv::bind_move(m);
  tierkv::bind_worker(m);
}
