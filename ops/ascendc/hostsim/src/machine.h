// State of a launch: cores, shadow memory, faults.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "hostsim/runtime.h"

namespace hostsim {

constexpr uint32_t kCells = kUbBytes / kCell;
constexpr uint32_t kScratchBytes = 8 * 1024;
constexpr int kEvents = 13, kEventIds = 8;
constexpr uint64_t kLine = 64;  // bytes of the scalar cache's line
constexpr size_t kFaults = 50;
constexpr size_t kBuffers = 64;  // that a TPipe manages
constexpr uint8_t kPoison = 0xa5;

// Instructions carry a stamp that grows over the whole launch. 0: no access.
struct Access {
  uint32_t stamp = 0;
  uint16_t site = 0;
  uint8_t core = 0;
  Pipe pipe = Pipe::kScalar;
};

struct UbCell {
  Access write;
  Access read[kPipes];
  Access earlier;      // the vector pipe's read before its last, which may be of the instruction that writes
  uint32_t known = 0;  // bit i: byte i has been written
};

// Accesses to the same bytes of global memory. Two readers of different cores are enough: whoever
// writes next conflicts with at least one.
struct History {
  Access write, read[kPipes], other;
};

struct Event {
  bool set = false, taken = false;
  uint16_t site = 0;
  std::array<uint32_t, kPipes> release{};
};

enum class BufferState { kFree, kAllocated, kEnqueued, kDequeued };

struct QueueBuffer {
  Ub ub;
  BufferState state = BufferState::kFree;
  int8_t full = -1, free = -1;  // event ids in use
  uint16_t site = 0;
};

struct Queue {
  std::vector<QueueBuffer> buffers;
  std::deque<int> enqueued;
  int full_event = 0, free_event = 0;
  size_t next = 0;
};

struct PipeCost {
  uint64_t instructions = 0, bytes = 0, bursts = 0;
};

struct Costs {
  PipeCost pipe[kPipes];
  uint64_t scalar = 0, ub_scalar = 0, gm_scalar = 0, flags = 0, barriers = 0, syncs = 0;
};

struct Core {
  uint8_t index = 0;
  uint8_t *ub = nullptr;  // this and the next two: mapped, so that only what is used costs time
  UbCell *cells = nullptr;
  void *stack = nullptr;
  // known[p][q]: accesses of pipe q up to this stamp come before what pipe p does next.
  uint32_t known[kPipes][kPipes] = {};
  Event events[kEvents][kEventIds];
  std::vector<Queue> queues;
  std::vector<std::pair<Ub, uint16_t>> buffers;  // and where they were made
  uint32_t ub_used = 0, ub_peak = 0, resets = 0;
  std::unordered_map<uint32_t, uint8_t> unknown_bits;  // of bytes of a mask that are known in part
  Costs costs;
  void *pipe = nullptr;
  bool done = false, waiting = false;
  uint16_t waits_at = 0;
  ucontext_t context{};
  // Scalar cache: stamp of the last invalidation of all lines, and of single lines.
  uint32_t cleaned = 0;
  std::unordered_map<uint64_t, uint32_t> cleaned_lines, met_lines;  // met: when last brought in
};

// Accesses of a block of 32 bytes as one while all use the same bytes of it, else byte by byte.
struct GmCell {
  History history;
  uint32_t bytes = 0;    // mask
  uint32_t split = 0;    // index of the bytes' histories
  uint32_t written = 0;  // mask of what this launch has written
};

// Kernels get addresses, `base` and up, that lie far apart: what is past one tensor is in none.
struct Tensor {
  std::string name;
  uint8_t *base, *data;
  uint64_t bytes;
  bool fresh;  // holds nothing before the launch
  GmCell *cells;
};

struct Line {
  Access write;
  bool dirty;
};

struct Fault {
  std::string kind, text;
  uint16_t site;
  uint64_t count;
};

struct Abort {};

struct Machine {
  uint64_t serial = 0;  // of the launch
  std::vector<Core> cores;
  std::vector<Tensor> tensors;
  std::vector<std::array<History, kCell>> splits;
  std::unordered_map<uint64_t, Line> lines;  // written by scalar instructions
  uint32_t stamp = 0, barrier = 0;
  int available_cores = 0, kernel_type = 0;
  uint64_t tiling_key = 0;
  std::string skip_file;
  int skip_line = -1;
  bool stop_at_first = false, type_reported = false;
  std::vector<Fault> faults;
  std::unordered_map<std::string, size_t> seen;
  std::vector<Site> sites{{"", 0}};
  std::unordered_map<uint64_t, uint16_t> site_ids;
  std::unordered_set<uint16_t> sync_sites;
  ucontext_t scheduler{};
};

extern Machine *machine;
extern Core *core;  // that runs now

uint16_t SiteId(Site site);
// Mark a sync statement as executed; true if this run leaves it out.
bool Skipped(uint16_t site);
uint32_t NextStamp();

// `same` tells repeated faults of one cause apart from others.
void AddFault(const char *kind, const std::string &text, uint16_t site, const std::string &same);
void AddFault(const char *kind, const std::string &text, uint16_t site);
std::string Describe(uint16_t site);
const char *PipeName(Pipe pipe);
std::string UbName(uint32_t at);
// One access after another, without order between them.
void AddRace(const char *what, const Access &before, Pipe pipe, uint16_t site, const std::string &where);

// Take back the flags of the core's queues and event ids, at the end and by TPipe::Reset.
void EndQueues();
void CheckEnd();
void SetEventOf(int event, int id, uint16_t site);
void WaitEventOf(int event, int id, uint16_t site);
std::string Json();

}  // namespace hostsim
