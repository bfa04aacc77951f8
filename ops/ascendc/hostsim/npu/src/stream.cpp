// The executor and streams.
#include <chrono>

#include "runtime.hpp"

namespace hostnpu {

Runtime& runtime() {
  // Never destroyed: torch_npu still calls at exit, after static destructors.
  static auto* const instance = new Runtime;
  return *instance;
}

int fail(int code, const std::string& text) {
  Guard guard(runtime().lock);
  runtime().message = text;
  return code;
}

int settle() {
  auto& all = runtime();
  Guard guard(all.lock);
  if (all.fault.empty()) return kOk;
  std::string text;
  text.swap(all.fault);
  return fail(kTaskFailed, text);
}

std::shared_ptr<Stream> make_stream(bool main) {
  auto stream = std::make_shared<Stream>();
  stream->id = runtime().next_id++;
  stream->main = main;
  return stream;
}

Stream* find(void* handle) {
  auto& all = runtime();
  if (handle == nullptr) {
    if (!all.unnamed) all.unnamed = make_stream(false);
    return all.unnamed.get();
  }
  const auto found = all.streams.find(static_cast<Stream*>(handle));
  return found == all.streams.end() ? nullptr : found->first;
}

static double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool lazy(const Stream& stream) {
  switch (runtime().order) {
    case Order::kEager: return false;
    case Order::kLateSide: return !stream.main;
    case Order::kLateMain: return stream.main;
    case Order::kLate: return true;
  }
  return false;
}

static void run(const Task& task) {
  auto& all = runtime();
  try {
    task();
  } catch (const std::exception& error) {
    if (all.fault.empty()) all.fault = error.what();
  }
}

// A wait names a mark that was queued before it, so the recursion ends.
void drive(Stream& stream, const Record* until) {
  const auto keep = stream.shared_from_this();
  while (!stream.items.empty() && !(until && until->done)) {
    const Item item = std::move(stream.items.front());
    stream.items.pop_front();
    if (item.run) run(item.run);
    if (item.mark) {
      item.mark->milliseconds = now();
      item.mark->done = true;
    }
    if (item.awaited && !item.awaited->done) drive(*item.awaited->stream, item.awaited.get());
  }
}

void drive_all() {
  auto& all = runtime();
  if (all.unnamed) drive(*all.unnamed);
  std::map<int, Stream*> by_id;  // addresses differ from run to run
  for (const auto& [stream, owner] : all.streams) by_id[stream->id] = stream;
  for (const auto& [id, stream] : by_id) drive(*stream);
  for (const auto& stream : all.branches) drive(*stream);
  all.branches.clear();
}

void push(Stream& stream, Item item) {
  stream.items.push_back(std::move(item));
  if (!lazy(stream)) drive(stream);
}

int launch(void* handle, Task task) {
  auto& all = runtime();
  Guard guard(all.lock);
  Stream* stream = find(handle);
  if (!stream) return fail(kInvalid, "launch: unknown stream");
  if (stream->capture) {
    log_task(*stream, std::move(task));
    return kOk;
  }
  push(*stream, {std::move(task), nullptr, nullptr});
  return settle();
}

bool may_synchronize(const char* caller, const Stream* stream) {
  if (runtime().captures == 0) return true;
  if (thread_capture_mode() == 2 && stream && !stream->capture) return true;
  fail(kInvalid, std::string(caller) + ": the host must not wait while a graph is captured");
  return false;
}

static int synchronize(const char* caller, void* handle) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  if (!stream) return fail(kInvalid, std::string(caller) + ": unknown stream");
  if (!may_synchronize(caller, stream)) return kInvalid;
  drive(*stream);
  return settle();
}

}  // namespace hostnpu

using namespace hostnpu;

extern "C" {

int aclrtCreateStreamWithConfig(void** stream, std::uint32_t, std::uint32_t) {
  auto& all = runtime();
  Guard guard(all.lock);
  const auto made = make_stream(all.streams.empty());
  all.streams[made.get()] = made;
  *stream = made.get();
  return kOk;
}

int aclrtCreateStream(void** stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }

int aclrtDestroyStream(void* handle) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  if (!stream || !handle) return fail(kInvalid, "aclrtDestroyStream: unknown stream");
  drive(*stream);
  runtime().streams.erase(stream);
  return settle();
}

int aclrtDestroyStreamForce(void* handle) { return aclrtDestroyStream(handle); }

int aclrtStreamGetId(void* handle, std::int32_t* id) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  if (!stream) return fail(kInvalid, "aclrtStreamGetId: unknown stream");
  *id = stream->id;
  return kOk;
}

int aclrtSynchronizeStream(void* handle) { return synchronize("aclrtSynchronizeStream", handle); }
int aclrtSynchronizeStreamWithTimeout(void* handle, std::int32_t) {
  return synchronize("aclrtSynchronizeStreamWithTimeout", handle);
}

int aclrtSynchronizeDevice() {
  Guard guard(runtime().lock);
  if (!may_synchronize("aclrtSynchronizeDevice")) return kInvalid;
  drive_all();
  return settle();
}
int aclrtSynchronizeDeviceWithTimeout(std::int32_t) { return aclrtSynchronizeDevice(); }

// 0 complete, 1 not ready.
int aclrtStreamQuery(void* handle, int* status) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  if (!stream) return fail(kInvalid, "aclrtStreamQuery: unknown stream");
  if (!may_synchronize("aclrtStreamQuery", stream)) return kInvalid;
  *status = stream->items.empty() ? 0 : 1;
  return kOk;
}

int aclrtLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
  return launch(handle, [=] { function(argument); });
}
int aclrtLaunchCallback(void (*function)(void*), void* argument, int, void* handle) {
  return launch(handle, [=] { function(argument); });
}

void hostnpu_set_order(int order) {
  Guard guard(runtime().lock);
  runtime().order = static_cast<Order>(order);
}

// The one main stream is this one from now on.
void hostnpu_set_main(void* handle) {
  Guard guard(runtime().lock);
  for (const auto& [stream, owner] : runtime().streams) stream->main = stream == handle;
}

// Whether what is launched on the stream runs at once.
int hostnpu_immediate(void* handle) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  return stream && !stream->capture && !lazy(*stream);
}

// Items that wait to be run, over all streams.
int hostnpu_pending() {
  auto& all = runtime();
  Guard guard(all.lock);
  std::size_t count = all.unnamed ? all.unnamed->items.size() : 0;
  for (const auto& [stream, owner] : all.streams) count += stream->items.size();
  for (const auto& stream : all.branches) count += stream->items.size();
  return static_cast<int>(count);
}
}
