// Run the cores as fibers, one after another from SyncAll to SyncAll: every run is the same.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "launch.h"
#include "machine.h"

namespace hostsim {
namespace {

constexpr size_t kStack = 1 << 20;
constexpr int kTensorBits = 42;  // from tensor to tensor in the kernel's addresses

const Launch *launch = nullptr;
std::vector<uint8_t *> arguments;

void *Map(size_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

size_t ShadowBytes(uint64_t bytes) { return (bytes / kCell + 1) * sizeof(GmCell); }

// Adds memory that a kernel may touch. Tensors that share memory become one.
void AddTensor(const char *name, uint8_t *data, uint64_t bytes, bool fresh) {
  for (Tensor &each : machine->tensors) {
    if (bytes == 0 || data >= each.data + each.bytes || each.data >= data + bytes) continue;
    uint8_t *end = std::max(data + bytes, each.data + each.bytes);
    each.data = std::min(data, each.data);
    each.bytes = static_cast<uint64_t>(end - each.data);
    each.fresh &= fresh;
    return;
  }
  machine->tensors.push_back({name, nullptr, data, bytes, fresh, nullptr});
}

void PlaceTensors() {
  for (size_t i = 0; i < machine->tensors.size(); ++i) {
    Tensor &each = machine->tensors[i];
    each.base = reinterpret_cast<uint8_t *>((i + 1) << kTensorBits);
    each.cells = static_cast<GmCell *>(Map(ShadowBytes(each.bytes)));
  }
}

// Where the kernel sees what lies at `data`.
uint8_t *Seen(const uint8_t *data, uint64_t bytes) {
  for (const Tensor &each : machine->tensors) {
    const bool within = bytes == 0 ? data == each.data : data < each.data + each.bytes;
    if (data >= each.data && within) return each.base + (data - each.data);
  }
  return nullptr;
}

void RunCore() {
  try {
    launch->kernel(arguments.data());
    CheckEnd();
  } catch (const Abort &) {
  }
  core->done = true;
  setcontext(&machine->scheduler);
}

void StartCore(Core &started, int index) {
  started.index = static_cast<uint8_t>(index);
  started.ub = static_cast<uint8_t *>(Map(kUbBytes));
  started.cells = static_cast<UbCell *>(Map(kCells * sizeof(UbCell)));
  started.known[0][0] = UINT32_MAX;  // scalar code runs in order
  started.stack = Map(kStack);
  mprotect(started.stack, 4096, PROT_NONE);
  getcontext(&started.context);
  started.context.uc_stack.ss_sp = started.stack;
  started.context.uc_stack.ss_size = kStack;
  started.context.uc_link = nullptr;
  makecontext(&started.context, RunCore, 0);
}

void EndPhase() {
  std::vector<Core *> waiting;
  const Core *missing = nullptr;
  for (Core &each : machine->cores) {
    if (each.waiting) waiting.push_back(&each);
    if (each.done) missing = &each;
  }
  core = nullptr;
  if (missing && !waiting.empty()) {
    AddFault("sync", "core " + std::to_string(missing->index) + " ends without this SyncAll: the others hang",
             waiting[0]->waits_at);
  }
  machine->barrier = ++machine->stamp;
  for (Core *each : waiting) {
    each->waiting = false;
    for (auto &row : each->known) {
      for (uint32_t &stamp : row) stamp = std::max(stamp, machine->barrier);
    }
  }
}

bool Stopped() { return machine->stop_at_first && !machine->faults.empty(); }

void RunCores() {
  bool left = true;
  while (left && !Stopped()) {
    left = false;
    for (Core &each : machine->cores) {
      if (each.done || Stopped()) continue;
      core = &each;
      swapcontext(&machine->scheduler, &each.context);
      left |= !each.done;
    }
    EndPhase();
  }
}

void CheckCaches() {
  for (const auto &[key, line] : machine->lines) {
    if (line.dirty) AddFault("cache", "a scalar write to GM is never cleaned from the cache", line.write.site);
  }
}

void Prepare(const Launch &task, std::vector<uint8_t> &workspace) {
  for (const auto *each = task.tensors; each != task.tensors + task.tensor_count; ++each) {
    AddTensor(each->name, each->data, each->bytes, each->fresh != 0);
  }
  // The system's part is not the kernel's.
  const uint64_t bytes = task.workspace > kSystemWorkspace ? task.workspace - kSystemWorkspace : 0;
  workspace.assign(bytes + 1, kPoison);
  AddTensor("workspace", workspace.data(), bytes, true);
  PlaceTensors();
  arguments.clear();
  for (int i = 0; i < task.argument_count; ++i) {
    const TensorArgument *tensor = task.arguments[i] < 0 ? nullptr : &task.tensors[task.arguments[i]];
    arguments.push_back(tensor ? Seen(tensor->data, tensor->bytes) : nullptr);
  }
  arguments.push_back(machine->tensors.back().base - kSystemWorkspace);
  arguments.push_back(const_cast<uint8_t *>(task.tiling));
  machine->available_cores = task.cores;
  machine->tiling_key = task.key;
  if (task.skip_file) machine->skip_file = task.skip_file, machine->skip_line = task.skip_line;
  machine->stop_at_first = task.stop_at_first != 0;
  machine->cores.resize(static_cast<size_t>(task.blocks));
  for (int i = 0; i < task.blocks; ++i) StartCore(machine->cores[static_cast<size_t>(i)], i);
}

}  // namespace

void SyncCores(Site site) {
  const uint16_t at = SiteId(site);
  if (Skipped(at)) return;
  NextStamp();
  ++core->costs.syncs;
  if (machine->kernel_type != 1) {
    AddFault("sync", "SyncAll needs KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0)", at);
  }
  if (!launch->together) AddFault("sync", "SyncAll needs SetScheduleMode(1) in the tiling", at);
  if (static_cast<int>(machine->cores.size()) > machine->available_cores) {
    AddFault("sync", "SyncAll with more blocks than cores: the cores hang", at);
  }
  core->waiting = true;
  core->waits_at = at;
  swapcontext(&core->context, &machine->scheduler);
}

void CountScalar(uint64_t operations) { core->costs.scalar += operations; }
void SetKernelType(int type) { machine->kernel_type = type; }
int64_t BlockIndex() { return core->index; }
int64_t BlockCount() { return static_cast<int64_t>(machine->cores.size()); }
uint64_t TilingKey() { return machine->tiling_key; }
void *&PipeSlot() { return core->pipe; }

}  // namespace hostsim

extern "C" const char *hostsim_launch(const hostsim::Launch *task) {
  using namespace hostsim;
  static std::string text;
  const auto state = std::make_unique<Machine>();
  std::vector<uint8_t> workspace;
  static uint64_t launches = 0;
  machine = state.get();
  machine->serial = ++launches;
  launch = task;
  core = nullptr;
  Prepare(*task, workspace);
  RunCores();
  core = nullptr;
  if (!Stopped()) CheckCaches();
  text = Json();
  for (Core &each : machine->cores) {
    munmap(each.stack, kStack);
    munmap(each.ub, kUbBytes);
    munmap(each.cells, kCells * sizeof(UbCell));
  }
  for (Tensor &tensor : machine->tensors) munmap(tensor.cells, ShadowBytes(tensor.bytes));
  machine = nullptr;
  return text.c_str();
}
