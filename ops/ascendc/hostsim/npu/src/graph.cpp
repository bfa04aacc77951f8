// Captured graphs: a log of items, each with the branch that it was captured on.
//
// Branch 0 is the stream on which the capture began; a stream that waits for an event of the capture
// becomes a branch of its own. At a replay branch 0 runs on the stream of the replay, the others on
// fresh streams, so a lazy order shows a missing wait inside the graph too.
#include <algorithm>

#include "runtime.hpp"

namespace hostnpu {

static thread_local int thread_mode = 0;
int thread_capture_mode() { return thread_mode; }

struct Capture {
  struct Entry {
    std::size_t branch;
    Item item;
  };
  const int number;
  std::vector<Entry> log;
  std::vector<Stream*> streams;                  // by branch; empty once captured
  std::vector<std::vector<std::size_t>> clocks;  // [branch][other]: entries of `other` known done
  std::string invalid;

  Capture() : number(++runtime().captured) {}
  void add(std::size_t branch, Item item) {
    ++clocks[branch][branch];
    log.push_back({branch, std::move(item)});
  }
  void join(Stream& stream) {
    stream.capture = this;
    stream.branch = streams.size();
    streams.push_back(&stream);
    for (auto& clock : clocks) clock.push_back(0);
    clocks.emplace_back(streams.size(), 0);
  }
  void merge(std::size_t branch, const std::vector<std::size_t>& other) {
    for (std::size_t i = 0; i < other.size(); ++i) clocks[branch][i] = std::max(clocks[branch][i], other[i]);
  }
  // A branch with work that branch 0 never waited for, or 0.
  std::size_t loose() const {
    for (std::size_t i = 1; i < streams.size(); ++i) {
      if (clocks[0][i] < clocks[i][i]) return i;
    }
    return 0;
  }
  // The streams are the caller's again.
  void leave() {
    for (Stream* stream : streams) stream->capture = nullptr;
    --runtime().captures;
  }
};

void log_task(Stream& stream, Task task) { stream.capture->add(stream.branch, {std::move(task), nullptr, nullptr}); }

void record_in_capture(Stream& stream, Event& event) {
  auto& capture = *stream.capture;
  event.last = std::make_shared<Record>();
  event.last->stream = stream.shared_from_this();
  event.last->capture = capture.number;
  event.last->clock = capture.clocks[stream.branch];
  capture.log.push_back({stream.branch, {nullptr, event.last, nullptr}});
}

int wait_in_capture(Stream& stream, Event& event) {
  const auto& last = event.last;
  if (!last) return kOk;
  if (!last->capture) {
    stream.capture->invalid = "a captured stream waits for an event recorded outside of the capture";
    return fail(kInvalid, "aclrtStreamWaitEvent: " + stream.capture->invalid);
  }
  Capture* const origin = last->stream->capture;
  if (!origin || origin->number != last->capture || (stream.capture && stream.capture != origin)) {
    return fail(kInvalid, "aclrtStreamWaitEvent: the event was recorded in another capture");
  }
  auto& capture = *origin;
  if (!stream.capture) capture.join(stream);
  capture.log.push_back({stream.branch, {nullptr, nullptr, last}});
  capture.merge(stream.branch, last->clock);
  return kOk;
}

// Fresh marks: replays may overlap with what waits for an earlier one.
static void replay(const Capture& graph, Stream& origin) {
  auto& all = runtime();
  std::map<std::size_t, Stream*> branches{{0, &origin}};
  std::map<const Record*, std::shared_ptr<Record>> marks;
  for (const auto& [branch, item] : graph.log) {
    if (!branches.count(branch)) {
      all.branches.push_back(make_stream(false));
      branches[branch] = all.branches.back().get();
    }
    Stream& stream = *branches[branch];
    Item fresh{item.run, nullptr, nullptr};
    if (item.mark) {
      fresh.mark = marks[item.mark.get()] = std::make_shared<Record>();
      fresh.mark->stream = stream.shared_from_this();
    }
    if (item.awaited) fresh.awaited = marks.at(item.awaited.get());
    push(stream, std::move(fresh));
  }
  const auto idle = [](const auto& stream) { return stream->items.empty(); };
  all.branches.erase(std::remove_if(all.branches.begin(), all.branches.end(), idle), all.branches.end());
}

}  // namespace hostnpu

using namespace hostnpu;

extern "C" {

int aclmdlRICaptureBegin(void* handle, int) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  if (!stream || stream->capture) return fail(kInvalid, "aclmdlRICaptureBegin: unknown stream, or already captured");
  auto* capture = new Capture;
  capture->join(*stream);
  ++runtime().captures;
  return kOk;
}

// Status: 0 none, 1 active, 2 invalidated.
int aclmdlRICaptureGetInfo(void* handle, int* status, void** model) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  if (!stream) return fail(kInvalid, "aclmdlRICaptureGetInfo: unknown stream");
  *status = !stream->capture ? 0 : stream->capture->invalid.empty() ? 1 : 2;
  if (model) *model = stream->capture;
  return kOk;
}

int aclmdlRICaptureEnd(void* handle, void** model) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  *model = nullptr;
  if (!stream || !stream->capture || stream->branch != 0) {
    return fail(kInvalid, "aclmdlRICaptureEnd: no capture began on this stream");
  }
  Capture* capture = stream->capture;
  capture->leave();
  if (const auto branch = capture->loose(); capture->invalid.empty() && branch) {
    capture->invalid = "stream " + std::to_string(capture->streams[branch]->id) +
                       " was captured but never joined: the capturing stream must wait for its last event";
  }
  capture->streams.clear();
  if (!capture->invalid.empty()) return fail(kInvalid, "aclmdlRICaptureEnd: " + capture->invalid);
  *model = capture;
  return kOk;
}

int aclmdlRICaptureThreadExchangeMode(int* mode) {
  std::swap(*mode, thread_mode);
  return kOk;
}

int aclmdlRIExecuteAsync(void* model, void* handle) {
  Guard guard(runtime().lock);
  Stream* stream = find(handle);
  if (!stream || stream->capture) return fail(kInvalid, "aclmdlRIExecuteAsync: unknown or captured stream");
  replay(*static_cast<Capture*>(model), *stream);
  return settle();
}

// Pending replays hold copies of the tasks, so nothing is waited for.
int aclmdlRIDestroy(void* model) {
  Guard guard(runtime().lock);
  delete static_cast<Capture*>(model);
  return kOk;
}
}
