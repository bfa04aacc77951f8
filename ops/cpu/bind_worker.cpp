#include "bindings.hpp"
#include "install_call.hpp"
#include "choose.hpp"
#include "worker.hpp"

namespace nb = nanobind;

namespace tierkv {
namespace {

// [n] int64: bits of Failure, then the number of the last job of each buffer and group.
struct Tickets {
  std::int64_t *data, count;

  Tickets(Reader& read, nb::handle tickets) {
    const Array array = read.any(tickets.ptr(), 1);
    read.good = read.good && array.holds(dlpack::kInt, 64) && array.dense_from(0) && array.shape[0] > 0;
    data = reinterpret_cast<std::int64_t*>(array.data);
    count = array.shape[0];
  }

  bool has(int i) const { return i > 0 && i < count; }

  std::int64_t last(int buffer, int group) const {
    if (buffer < 0 && group < 0) return *std::max_element(data + 1, data + count);
    return std::max(has(buffer) ? data[buffer] : 0, has(group) ? data[group] : 0);
  }
};

// False after all that was submitted is done: then the reference runs, in its turn.
bool hand_over(const Tickets& tickets, int buffer, int group, bool good, Job& job) {
  Worker& worker = Worker::shared();
  nb::gil_scoped_release release;
  if (!good || !tickets.has(buffer) || !tickets.has(group)) {
    worker.wait_all();
    return false;
  }
  job.failures = tickets.data;
  tickets.data[buffer] = tickets.data[group] = worker.submit(job);
  return true;
}

bool run_submit(int, nb::handle tickets, int buffer, int group, const char* policy,
                nb::handle arguments, nb::handle lanes, nb::handle kind, nb::handle index,
                nb::handle miss_id, nb::handle miss_from, nb::handle miss_count, nb::handle tables,
                nb::handle slot, nb::handle count, nb::handle counters, nb::handle selection,
                nb::handle pool) {
  PlaceCall call(lanes, kind, index, miss_id, miss_from, miss_count, tables, slot, count, counters);
  const Tickets numbers(call.read, tickets);
  Job job;
  job.policy = choose(policy, call, arguments);
  job.place = call.a;
  job.install = read_install(call.read, lanes, miss_from, miss_count, slot, selection, pool);
  return hand_over(numbers, buffer, group, call.read.good, job);
}

bool run_submit_install(int, nb::handle tickets, int buffer, int group, nb::handle lanes,
                        nb::handle miss_from, nb::handle miss_count, nb::handle slot,
                        nb::handle selection, nb::handle pool) {
  Reader read;
  const Tickets numbers(read, tickets);
  Job job;
  job.install = read_install(read, lanes, miss_from, miss_count, slot, selection, pool);
  return hand_over(numbers, buffer, group, read.good, job);
}

bool run_wait(int, nb::handle tickets, int buffer, int group) {
  Reader read;
  const Tickets numbers(read, tickets);
  if (!read.good) return false;
  const std::int64_t last = numbers.last(buffer, group);
  Worker& worker = Worker::shared();
  if (!worker.done(last)) {
    nb::gil_scoped_release release;
    worker.wait(last);
  }
  return __atomic_load_n(numbers.data, __ATOMIC_RELAXED) == 0;
}

}  // namespace

void bind_worker(nb::module_& m) {
  m.def("start_worker", [] { Worker::shared().start(); });
  m.def("submit", &run_submit);
  m.def("submit_install", &run_submit_install);
  m.def("wait", &run_wait);
  m.def("delay_worker", [](int microseconds) {
    Job job;
    job.delay = std::chrono::microseconds(microseconds);
    nb::gil_scoped_release release;
    Worker::shared().submit(job);
  });
  m.def("end_worker", [] {
    Job job;
    job.deadly = true;
    nb::gil_scoped_release release;
    Worker::shared().submit(job);
  });
}

}  // namespace tierkv
