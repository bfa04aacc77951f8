// What the kernel API asks of the core model. Implemented in ../../src.
#pragma once

#include <cstdint>

#include "hostsim/site.h"

namespace hostsim {

constexpr uint32_t kUbBytes = 192 * 1024;
constexpr uint32_t kSystemWorkspace = 1024;  // bytes, GetLibApiWorkSpaceSize
constexpr uint32_t kCell = 32;  // bytes of a block, the model's unit of order

enum class Pipe : uint8_t { kScalar, kVector, kMte2, kMte3 };
constexpr int kPipes = 4;

// Bytes from `at` on in a buffer [begin, end) of the current core's unified buffer, which was made after
// so many TPipe::Reset.
struct Ub {
  uint32_t begin = 0, end = 0, at = 0, resets = 0;

  Ub operator+(uint64_t bytes) const { return {begin, end, static_cast<uint32_t>(at + bytes), resets}; }
};

// Bytes from `at` on in a tensor, which a GlobalTensor limits to `end`. The host's bytes are at GmData.
struct Gm {
  uint8_t *at = nullptr, *end = nullptr;
  int tensor = -1;  // index of the registered tensor that the GlobalTensor's base lies in

  Gm operator+(int64_t bytes) const { return {at + bytes, end, tensor}; }
};

uint8_t *UbData(const Ub &ub);
uint8_t *GmData(const Gm &gm);
Gm GlobalMemory(uint8_t *base, uint64_t bytes, Site site);

// One instruction of a vector or copy pipe. Its operands are declared before it touches memory; it
// may run only if every declaration returned true.
class Instruction {
 public:
  Instruction(Pipe pipe, const char *name, Site site);

  bool Read(const Ub &ub, uint64_t bytes);
  bool Write(const Ub &ub, uint64_t bytes);
  // The same, and no source may lie there: for results of another element size.
  bool WriteApart(const Ub &ub, uint64_t bytes);
  bool Read(const Gm &gm, uint64_t bytes);
  bool Write(const Gm &gm, uint64_t bytes);
  // One element by computed address: no 32-byte alignment asked for.
  bool ReadElement(const Ub &ub, uint32_t bytes);

  // Which bytes hold values. `Follow` marks each byte of `target` by the same byte of the sources.
  void Define(const Ub &target, uint64_t bytes);
  void Undefine(const Ub &target, uint64_t bytes);
  void Follow(const Ub &target, uint64_t bytes, const Ub &a, const Ub &b);
  void Follow(const Ub &target, uint64_t bytes, const Gm &source);
  bool Defined(const Ub &source, uint64_t bytes) const;
  // The values steer the instruction or leave the core: they must have been written.
  void Require(const Ub &source, uint64_t bytes);
  // The same of the bits of a mask, whose bytes may be known in part.
  void DefineBits(const Ub &byte, uint8_t known);
  bool DefinedBits(const Ub &mask, uint64_t from, uint64_t to) const;
  void RequireBits(const Ub &mask, uint64_t bits);

  // Report unless `holds`; returns `holds`.
  bool Check(bool holds, const char *kind, const char *text);
  void Cost(uint64_t bytes, uint64_t bursts);

 private:
  bool Reachable(const Ub &ub, uint64_t bytes, bool aligned);
  bool Apart(const Ub &target, uint64_t bytes, bool in_place);

  Pipe pipe_;
  const char *name_;
  uint16_t site_;
  uint32_t stamp_;
  struct {
    uint32_t begin, end;
  } sources_[3] = {};  // whole operands read so far
  int source_count_ = 0;
};

// Scalar accesses; null where the address may not be touched.
const uint8_t *ScalarRead(const Ub &ub, uint32_t bytes, Site site);
uint8_t *ScalarWrite(const Ub &ub, uint32_t bytes, Site site);
const uint8_t *ScalarRead(const Gm &gm, uint32_t bytes, Site site);
uint8_t *ScalarWrite(const Gm &gm, uint32_t bytes, Site site);
void CleanCache(const Gm &gm, bool whole, Site site);

// Order. `event` is a HardEvent's number.
void SetEvent(int event, int32_t id, Site site);
void WaitEvent(int event, int32_t id, Site site);
int8_t AllocEvent(int event, Site site);
void ReleaseEvent(int event, int8_t id, Site site);
int8_t FetchEvent(int event, Site site);
void Barrier(int pipe, bool all, Site site);
void SyncCores(Site site);

// Buffers and queues.
Ub AllocUb(uint64_t bytes, Site site);
void ResetUb();
int QueueInit(int count, uint64_t bytes, int enqueued, int freed, Site site);
Ub QueueAlloc(int queue, Site site);
void QueueEnque(int queue, const Ub &tensor, Site site);
Ub QueueDeque(int queue, Site site);
void QueueFree(int queue, const Ub &tensor, Site site);
int QueueCount(int queue, bool enqueued);

void Report(const char *kind, const char *text, Site site);
void UseScratchUb(Site site);  // 8 KiB at the end of UB, which Select and others take
void CountScalar(uint64_t operations);
void SetKernelType(int type);
int64_t BlockIndex();
int64_t BlockCount();
uint64_t TilingKey();
void *&PipeSlot();  // of the current core

}  // namespace hostsim
