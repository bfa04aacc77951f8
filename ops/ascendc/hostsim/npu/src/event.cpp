// Events: marks in streams.
#include "runtime.hpp"

using namespace hostnpu;

namespace {

// After so many queries in a row that found an event pending, its stream is driven: who polls makes
// progress, and the allocator's few queries do not.
constexpr int kPatience = 1000;

bool pending(Record& record) {
  if (record.done) return false;
  if (++record.queries < kPatience) return true;
  drive(*record.stream, &record);
  return !record.done;
}

}  // namespace

extern "C" {

int aclrtCreateEventExWithFlag(void** event, std::uint32_t) {
  *event = new Event;
  return kOk;
}
int aclrtCreateEventWithFlag(void** event, std::uint32_t) { return aclrtCreateEventExWithFlag(event, 0); }
int aclrtCreateEvent(void** event) { return aclrtCreateEventExWithFlag(event, 0); }

int aclrtDestroyEvent(void* event) {
  Guard guard(runtime().lock);
  delete static_cast<Event*>(event);
  return kOk;
}

int aclrtRecordEvent(void* handle, void* where) {
  Guard guard(runtime().lock);
  auto& event = *static_cast<Event*>(handle);
  Stream* stream = find(where);
  if (!stream) return fail(kInvalid, "aclrtRecordEvent: unknown stream");
  if (stream->capture) {
    record_in_capture(*stream, event);
    return kOk;
  }
  event.last = std::make_shared<Record>();
  event.last->stream = stream->shared_from_this();
  push(*stream, {nullptr, event.last, nullptr});
  return settle();
}

int aclrtStreamWaitEvent(void* where, void* handle) {
  Guard guard(runtime().lock);
  auto& event = *static_cast<Event*>(handle);
  Stream* stream = find(where);
  if (!stream) return fail(kInvalid, "aclrtStreamWaitEvent: unknown stream");
  if (stream->capture || (event.last && event.last->capture)) return wait_in_capture(*stream, event);
  if (event.last) push(*stream, {nullptr, nullptr, event.last});
  return settle();
}

// 1 complete, 0 not ready; an event never recorded is complete.
int aclrtQueryEventStatus(void* handle, int* status) {
  Guard guard(runtime().lock);
  const auto& last = static_cast<Event*>(handle)->last;
  if (last && last->capture) return fail(kInvalid, "aclrtQueryEventStatus: the event is captured");
  *status = last && pending(*last) ? 0 : 1;
  return settle();
}

// 0 complete, 1 not ready.
int aclrtQueryEventWaitStatus(void* handle, int* status) {
  const int code = aclrtQueryEventStatus(handle, status);
  *status = 1 - *status;
  return code;
}

int aclrtSynchronizeEvent(void* handle) {
  Guard guard(runtime().lock);
  const auto last = static_cast<Event*>(handle)->last;
  if (!last) return kOk;
  if (last->capture) return fail(kInvalid, "aclrtSynchronizeEvent: the event is captured");
  if (!may_synchronize("aclrtSynchronizeEvent", last->stream.get())) return kInvalid;
  drive(*last->stream, last.get());
  return settle();
}

int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
  Guard guard(runtime().lock);
  const auto from = static_cast<Event*>(start)->last, to = static_cast<Event*>(end)->last;
  if (!from || !to || !from->done || !to->done) {
    return fail(kInvalid, "aclrtEventElapsedTime: an event is not recorded, or not yet complete");
  }
  *milliseconds = static_cast<float>(to->milliseconds - from->milliseconds);
  return kOk;
}

int aclrtResetEvent(void* handle, void*) {
  Guard guard(runtime().lock);
  static_cast<Event*>(handle)->last.reset();
  return kOk;
}
}
