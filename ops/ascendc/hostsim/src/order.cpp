// Flags, barriers, queues: all that orders the pipes of a core, and the cores.
#include <algorithm>

#include "machine.h"

namespace hostsim {
namespace {

struct Ends {
  Pipe from, to;
};

// In the order of AscendC::HardEvent.
constexpr Ends kEnds[kEvents] = {
    {Pipe::kMte2, Pipe::kVector}, {Pipe::kVector, Pipe::kMte2}, {Pipe::kMte2, Pipe::kScalar},
    {Pipe::kScalar, Pipe::kMte2}, {Pipe::kMte3, Pipe::kVector}, {Pipe::kVector, Pipe::kMte3},
    {Pipe::kMte3, Pipe::kScalar}, {Pipe::kScalar, Pipe::kMte3}, {Pipe::kVector, Pipe::kScalar},
    {Pipe::kScalar, Pipe::kVector}, {Pipe::kMte2, Pipe::kMte3}, {Pipe::kMte3, Pipe::kMte2},
    {Pipe::kVector, Pipe::kVector}};

std::string EventName(int event, int id) {
  return std::string(PipeName(kEnds[event].from)) + "_" + PipeName(kEnds[event].to) + " " + std::to_string(id);
}

bool KnownId(int event, int id, uint16_t site) {
  if (id >= 0 && id < kEventIds) return true;
  AddFault("flag", EventName(event, id) + ": event ids are 0 to 7", site);
  return false;
}

}  // namespace

void SetEventOf(int event, int id, uint16_t site) {
  if (!KnownId(event, id, site)) return;
  Event &flag = core->events[event][id];
  const auto from = static_cast<int>(kEnds[event].from);
  ++core->costs.flags;
  if (flag.set) AddFault("flag", EventName(event, id) + " is set twice, first at " + Describe(flag.site), site);
  flag.set = true;
  flag.site = site;
  std::copy_n(core->known[from], kPipes, flag.release.begin());
  flag.release[from] = machine->stamp;
}

void WaitEventOf(int event, int id, uint16_t site) {
  if (!KnownId(event, id, site)) return;
  Event &flag = core->events[event][id];
  ++core->costs.flags;
  if (!flag.set) {
    AddFault("flag", EventName(event, id) + " is waited for, but nobody has set it: the core hangs", site);
    return;
  }
  flag.set = false;
  uint32_t *known = core->known[static_cast<int>(kEnds[event].to)];
  for (int pipe = 0; pipe < kPipes; ++pipe) known[pipe] = std::max(known[pipe], flag.release[pipe]);
}

void SetEvent(int event, int32_t id, Site site) {
  const uint16_t at = SiteId(site);
  NextStamp();
  if (!Skipped(at)) SetEventOf(event, id, at);
}

void WaitEvent(int event, int32_t id, Site site) {
  const uint16_t at = SiteId(site);
  NextStamp();
  if (!Skipped(at)) WaitEventOf(event, id, at);
}

int8_t FetchEvent(int event, Site site) {
  for (int8_t id = 0; id < kEventIds; ++id) {
    if (!core->events[event][id].taken) return id;
  }
  AddFault("flag", EventName(event, kEventIds) + ": all 8 event ids are taken", SiteId(site));
  return 0;
}

int8_t AllocEvent(int event, Site site) {
  const int8_t id = FetchEvent(event, site);
  core->events[event][id].taken = true;
  return id;
}

void ReleaseEvent(int event, int8_t id, Site site) {
  const uint16_t at = SiteId(site);
  if (!KnownId(event, id, at)) return;
  if (!core->events[event][id].taken) AddFault("flag", EventName(event, id) + " is released, but was not taken", at);
  core->events[event][id].taken = false;
}

void Barrier(int pipe, bool all, Site site) {
  const uint16_t at = SiteId(site);
  ++core->costs.barriers;
  const uint32_t now = NextStamp();
  if (Skipped(at)) return;
  for (int p = 0; p < kPipes; ++p) {
    for (int q = 0; q < kPipes; ++q) {
      if (all || (p == pipe && q == pipe)) core->known[p][q] = std::max(core->known[p][q], now);
    }
  }
}

int QueueInit(int count, uint64_t bytes, int full_event, int free_event, Site site) {
  Queue queue;
  queue.full_event = full_event;
  queue.free_event = free_event;
  for (int i = 0; i < count; ++i) {
    queue.buffers.emplace_back();
    queue.buffers.back().ub = AllocUb(bytes, site);
  }
  core->queues.push_back(queue);
  return static_cast<int>(core->queues.size()) - 1;
}

Ub QueueAlloc(int index, Site site) {
  const uint16_t at = SiteId(site);
  const bool skipped = Skipped(at);
  NextStamp();
  if (index < 0) return AddFault("queue", "AllocTensor before InitBuffer", at), Ub{};
  Queue &queue = core->queues[index];
  for (size_t i = 0; i < queue.buffers.size(); ++i) {
    QueueBuffer &buffer = queue.buffers[queue.next];
    queue.next = (queue.next + 1) % queue.buffers.size();
    if (buffer.state != BufferState::kFree) continue;
    buffer.state = BufferState::kAllocated;
    buffer.site = at;
    if (buffer.free >= 0) {
      if (!skipped) WaitEventOf(queue.free_event, buffer.free, at);
      core->events[queue.free_event][buffer.free].taken = false;
      if (skipped) core->events[queue.free_event][buffer.free].set = false;
      buffer.free = -1;
    }
    for (uint32_t cell = buffer.ub.begin / kCell; cell < std::min(buffer.ub.end, kUbBytes) / kCell; ++cell) {
      core->cells[cell].known = 0;
    }
    return buffer.ub;
  }
  AddFault("queue", "AllocTensor, but no buffer is free", at);
  return queue.buffers.empty() ? Ub{} : queue.buffers[0].ub;
}

namespace {

QueueBuffer *Find(int index, const Ub &tensor, uint16_t site) {
  if (index >= 0) {
    for (QueueBuffer &buffer : core->queues[index].buffers) {
      if (buffer.ub.begin == tensor.begin) return &buffer;
    }
  }
  AddFault("queue", "the tensor is not of this queue", site);
  return nullptr;
}

}  // namespace

void QueueEnque(int index, const Ub &tensor, Site site) {
  const uint16_t at = SiteId(site);
  const bool skipped = Skipped(at);
  NextStamp();
  QueueBuffer *buffer = Find(index, tensor, at);
  if (!buffer) return;
  Queue &queue = core->queues[index];
  if (buffer->state != BufferState::kAllocated) AddFault("queue", "EnQue of a tensor that was not allocated", at);
  buffer->state = BufferState::kEnqueued;
  buffer->site = at;
  queue.enqueued.push_back(static_cast<int>(buffer - queue.buffers.data()));
  if (skipped) return;
  buffer->full = AllocEvent(queue.full_event, site);
  SetEventOf(queue.full_event, buffer->full, at);
}

Ub QueueDeque(int index, Site site) {
  const uint16_t at = SiteId(site);
  const bool skipped = Skipped(at);
  NextStamp();
  if (index < 0 || core->queues[index].enqueued.empty()) {
    AddFault("queue", "DeQue, but nothing is in the queue: the core hangs", at);
    return index < 0 ? Ub{} : core->queues[index].buffers[0].ub;
  }
  Queue &queue = core->queues[index];
  QueueBuffer &buffer = queue.buffers[queue.enqueued.front()];
  queue.enqueued.pop_front();
  buffer.state = BufferState::kDequeued;
  buffer.site = at;
  if (buffer.full >= 0) {
    if (!skipped) WaitEventOf(queue.full_event, buffer.full, at);
    core->events[queue.full_event][buffer.full].taken = false;
    core->events[queue.full_event][buffer.full].set = false;
    buffer.full = -1;
  }
  return buffer.ub;
}

void QueueFree(int index, const Ub &tensor, Site site) {
  const uint16_t at = SiteId(site);
  const bool skipped = Skipped(at);
  NextStamp();
  QueueBuffer *buffer = Find(index, tensor, at);
  if (!buffer) return;
  if (buffer->state == BufferState::kFree || buffer->state == BufferState::kEnqueued) {
    AddFault("queue", "FreeTensor of a tensor that is free, or still in the queue", at);
    return;
  }
  buffer->state = BufferState::kFree;
  if (skipped) return;
  Queue &queue = core->queues[index];
  buffer->free = AllocEvent(queue.free_event, site);
  SetEventOf(queue.free_event, buffer->free, at);
}

int QueueCount(int index, bool enqueued) {
  if (index < 0) return 0;
  const Queue &queue = core->queues[index];
  if (enqueued) return static_cast<int>(queue.enqueued.size());
  return static_cast<int>(std::count_if(queue.buffers.begin(), queue.buffers.end(),
                                        [](const QueueBuffer &b) { return b.state == BufferState::kFree; }));
}

// A queue's last FreeTensor leaves its flag set, which TPipe waits for.
void EndQueues() {
  for (Queue &queue : core->queues) {
    for (QueueBuffer &buffer : queue.buffers) {
      if (buffer.state != BufferState::kFree) AddFault("queue", "a queue's tensor is never freed", buffer.site);
      if (buffer.free >= 0) WaitEventOf(queue.free_event, buffer.free, buffer.site);
    }
    queue.buffers.clear();
  }
  for (auto &ids : core->events) {
    for (Event &flag : ids) flag.taken = false;
  }
}

void CheckEnd() {
  EndQueues();
  for (int event = 0; event < kEvents; ++event) {
    for (int id = 0; id < kEventIds; ++id) {
      const Event &flag = core->events[event][id];
      if (flag.set) AddFault("flag", EventName(event, id) + " is still set at the end", flag.site);
    }
  }
}

}  // namespace hostsim
