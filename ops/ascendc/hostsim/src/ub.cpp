// The unified buffer: who touched which block last, and which bytes hold values.
#include <algorithm>
#include <cstring>

#include "machine.h"
#include "ub.h"

namespace hostsim {
namespace {

bool Ordered(const Access &before, Pipe pipe, uint32_t stamp) {
  if (before.stamp == 0 || before.stamp == stamp) return true;
  return before.stamp <= core->known[static_cast<int>(pipe)][static_cast<int>(before.pipe)];
}

void Race(const char *what, const Access &before, const Access &now, uint32_t cell) {
  AddRace(what, before, now.pipe, now.site, UbName(cell * kCell));
}

void TouchCell(UbCell &cell, uint32_t index, bool write, const Access &now) {
  if (!Ordered(cell.write, now.pipe, now.stamp)) Race(write ? "WAW" : "RAW", cell.write, now, index);
  if (!write) {
    Access &read = cell.read[static_cast<int>(now.pipe)];
    if (now.pipe == Pipe::kVector && read.stamp != now.stamp) cell.earlier = read;
    read = now;
    return;
  }
  for (Access &read : cell.read) {
    const Access &before = read.stamp == now.stamp ? cell.earlier : read;
    if (!Ordered(before, now.pipe, now.stamp)) Race("WAR", before, now, index);
    read = {};
  }
  cell.earlier = {};
  cell.write = now;
}

void Touch(const Ub &ub, uint64_t bytes, bool write, const Access &now) {
  const uint64_t last = (ub.at + bytes - 1) / kCell;
  for (uint64_t i = ub.at / kCell; i <= last; ++i) TouchCell(core->cells[i], static_cast<uint32_t>(i), write, now);
}

bool InBounds(const Ub &ub, uint64_t bytes, uint16_t site) {
  if (ub.end != 0 && ub.resets != core->resets) {
    AddFault("bounds", "a UB tensor of before TPipe::Reset", site, "reset");
    return false;
  }
  if (ub.at < ub.begin || ub.at + bytes > ub.end) {
    AddFault("bounds", "bytes " + std::to_string(int64_t{ub.at} - ub.begin) + " to " +
                           std::to_string(int64_t(ub.at + bytes) - ub.begin) + " of a UB tensor of " +
                           std::to_string(ub.end - ub.begin) + " (" + UbName(ub.begin) + ")",
             site, "ub");
    return false;
  }
  return ub.at + bytes <= kUbBytes;  // reported when the buffer was made
}

}  // namespace

uint8_t *UbData(const Ub &ub) { return core->ub + ub.at; }

Instruction::Instruction(Pipe pipe, const char *name, Site site)
    : pipe_(pipe), name_(name), site_(SiteId(site)), stamp_(NextStamp()) {
  ++core->costs.pipe[static_cast<int>(pipe)].instructions;
}

bool Instruction::Check(bool holds, const char *kind, const char *text) {
  if (!holds) AddFault(kind, std::string(name_) + ": " + text, site_);
  return holds;
}

void Instruction::Cost(uint64_t bytes, uint64_t bursts) {
  PipeCost &cost = core->costs.pipe[static_cast<int>(pipe_)];
  cost.bytes += bytes;
  cost.bursts += bursts;
}

bool Instruction::Reachable(const Ub &ub, uint64_t bytes, bool aligned) {
  if (!InBounds(ub, bytes, site_)) return false;
  return Check(!aligned || ub.at % kCell == 0, "alignment", "a UB address is not a multiple of 32 bytes");
}

// Source and target of one instruction are the same or apart.
bool Instruction::Apart(const Ub &target, uint64_t bytes, bool in_place) {
  bool apart = true;
  for (int i = 0; i < source_count_; ++i) {
    const auto &source = sources_[i];
    apart &= (in_place && source.begin == target.at) || source.end <= target.at || source.begin >= target.at + bytes;
  }
  return Check(apart, "overlap", in_place ? "the target overlaps a source in part" : "the target overlaps a source");
}

bool Instruction::Read(const Ub &ub, uint64_t bytes) {
  if (!Reachable(ub, bytes, true)) return false;
  if (source_count_ < 3) sources_[source_count_++] = {ub.at, static_cast<uint32_t>(ub.at + bytes)};
  Touch(ub, bytes, false, {stamp_, site_, core->index, pipe_});
  return true;
}

bool Instruction::ReadElement(const Ub &ub, uint32_t bytes) {
  if (!Reachable(ub, bytes, false) || !Check(ub.at % bytes == 0, "alignment", "an element's offset")) return false;
  Touch(ub, bytes, false, {stamp_, site_, core->index, pipe_});
  return true;
}

bool Instruction::Write(const Ub &ub, uint64_t bytes) {
  if (!Reachable(ub, bytes, true) || !Apart(ub, bytes, true)) return false;
  Touch(ub, bytes, true, {stamp_, site_, core->index, pipe_});
  return true;
}

bool Instruction::WriteApart(const Ub &ub, uint64_t bytes) {
  return Reachable(ub, bytes, true) && Apart(ub, bytes, false) && Write(ub, bytes);
}

namespace {

bool ScalarMay(const Ub &ub, uint32_t bytes, uint16_t site) {
  ++core->costs.ub_scalar;
  if (!InBounds(ub, bytes, site)) return false;
  if (ub.at % bytes == 0) return true;
  AddFault("alignment", "a scalar access is not aligned to its size", site);
  return false;
}

}  // namespace

const uint8_t *ScalarRead(const Ub &ub, uint32_t bytes, Site site) {
  const uint16_t id = SiteId(site);
  if (!ScalarMay(ub, bytes, id)) return nullptr;
  Touch(ub, bytes, false, {NextStamp(), id, core->index, Pipe::kScalar});
  const uint32_t known = core->cells[ub.at / kCell].known, mask = Mask(ub.at / kCell, ub.at, ub.at + bytes);
  if ((known & mask) != mask) AddFault("undefined", "GetValue of bytes never written: " + UbName(ub.at), id, "get");
  return UbData(ub);
}

uint8_t *ScalarWrite(const Ub &ub, uint32_t bytes, Site site) {
  const uint16_t id = SiteId(site);
  if (!ScalarMay(ub, bytes, id)) return nullptr;
  Touch(ub, bytes, true, {NextStamp(), id, core->index, Pipe::kScalar});
  MarkKnown(ub, bytes);
  return UbData(ub);
}

Ub AllocUb(uint64_t bytes, Site site) {
  const uint64_t all = (bytes + kCell - 1) / kCell * kCell;
  const uint16_t id = SiteId(site);
  const uint32_t begin = core->ub_used;
  if (begin + all > kUbBytes) {
    const std::string text = std::to_string(begin + all) + " bytes of UB asked for, there are ";
    AddFault("ub", text + std::to_string(kUbBytes), id, "");
  }
  if (core->buffers.size() == kBuffers) {
    AddFault("ub", "more than " + std::to_string(kBuffers) + " buffers", id, "buffers");
  }
  const Ub ub{begin, static_cast<uint32_t>(begin + all), begin, core->resets};
  if (begin < kUbBytes) std::memset(core->ub + begin, kPoison, std::min<uint64_t>(all, kUbBytes - begin));
  core->ub_used = ub.end;
  core->ub_peak = std::max(core->ub_peak, ub.end);
  core->buffers.emplace_back(ub, id);
  return ub;
}

// What the next buffers hold is unknown; who used the bytes last is not forgotten.
void ResetUb() {
  EndQueues();
  ++core->resets;
  core->ub_used = 0;
  core->buffers.clear();
  for (uint32_t cell = 0; cell < std::min(core->ub_peak, kUbBytes) / kCell; ++cell) core->cells[cell].known = 0;
}

void UseScratchUb(Site site) {
  if (core->ub_used > kUbBytes - kScratchBytes) {
    AddFault("ub", "the last 8 KiB of UB belong to this instruction, but a buffer lies there", SiteId(site), "scratch");
  }
}

}  // namespace hostsim
