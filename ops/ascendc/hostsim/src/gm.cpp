// Global memory: bounds, order between cores and pipes, and the scalar cache's lines.
#include <algorithm>
#include <cstring>

#include "machine.h"

namespace hostsim {
namespace {

struct Range {
  int tensor;
  uint64_t at, end;  // bytes of the tensor
};

bool Live(const Access &access) { return access.stamp > machine->barrier; }

// Accesses of other cores are ordered by SyncAll alone.
bool Ordered(const Access &before, const Access &now) {
  if (before.stamp == 0 || before.stamp == now.stamp) return true;
  if (before.core != now.core) return !Live(before);
  return before.stamp <= core->known[static_cast<int>(now.pipe)][static_cast<int>(before.pipe)];
}

std::string Where(const Tensor &tensor, uint64_t at) { return tensor.name + " +" + std::to_string(at); }

void Visit(History &history, bool write, const Access &now, const Tensor &tensor, uint64_t at) {
  const auto check = [&](const char *what, const Access &before) {
    if (!Ordered(before, now)) AddRace(what, before, now.pipe, now.site, Where(tensor, at));
  };
  check(write ? "WAW" : "RAW", history.write);
  if (write) {
    for (Access &read : history.read) check("WAR", std::exchange(read, {}));
    check("WAR", std::exchange(history.other, {}));
    history.write = now;
    return;
  }
  for (const Access &read : history.read) {
    if (Live(read) && read.core != now.core) history.other = read;
  }
  history.read[static_cast<int>(now.pipe)] = now;
}

bool Stale(const History &history) {
  const auto live = [](const Access &access) { return Live(access); };
  return !live(history.write) && !live(history.other) && std::none_of(history.read, history.read + kPipes, live);
}

// A write that SyncAll has ordered may be of more bytes than those accessed now: caches may be older.
void Split(GmCell &cell) {
  std::array<History, kCell> bytes;
  History others;
  if (!Live(cell.history.write)) others.write = cell.history.write;
  for (uint32_t i = 0; i < kCell; ++i) {
    bytes[i] = cell.bytes >> i & 1 ? cell.history : cell.written >> i & 1 ? others : History{};
  }
  machine->splits.push_back(bytes);
  cell.split = static_cast<uint32_t>(machine->splits.size());
}

void Touch(const Range &range, bool write, const Access &now) {
  const Tensor &tensor = machine->tensors[range.tensor];
  for (uint64_t i = range.at / kCell; i * kCell < range.end; ++i) {
    const uint64_t from = std::max(range.at, i * kCell) - i * kCell;
    const uint64_t to = std::min(range.end, (i + 1) * kCell) - i * kCell;
    const auto mask = static_cast<uint32_t>((uint64_t{1} << to) - (uint64_t{1} << from));
    GmCell &cell = tensor.cells[i];
    if (write) cell.written |= mask;
    if (!cell.split && cell.bytes != mask) {
      if (cell.bytes == 0 || Stale(cell.history)) {
        cell.bytes = mask;
      } else {
        Split(cell);
      }
    }
    if (!cell.split) {
      Visit(cell.history, write, now, tensor, i * kCell + from);
      continue;
    }
    for (uint64_t k = from; k < to; ++k) Visit(machine->splits[cell.split - 1][k], write, now, tensor, i * kCell + k);
  }
}

bool InBounds(const Gm &gm, uint64_t bytes, uint16_t site, Range &range) {
  if (gm.tensor < 0) {
    AddFault("bounds", "an address outside of every tensor", site);
    return false;
  }
  const Tensor &tensor = machine->tensors[gm.tensor];
  const int64_t at = gm.at - tensor.base;
  const int64_t end = at + static_cast<int64_t>(bytes), limit = gm.end - tensor.base;
  range = {gm.tensor, static_cast<uint64_t>(at), static_cast<uint64_t>(end)};
  if (at >= 0 && end <= static_cast<int64_t>(tensor.bytes) && end <= limit) return true;
  std::string text = "bytes " + std::to_string(at) + " to " + std::to_string(end) + " of " + tensor.name +
                     ", which has " + std::to_string(tensor.bytes);
  if (end <= static_cast<int64_t>(tensor.bytes)) text += "; the GlobalTensor ends before";
  AddFault("bounds", text, site, tensor.name);
  return false;
}

uint64_t LineKey(const Range &range, uint64_t line) { return static_cast<uint64_t>(range.tensor) << 48 | line; }

// A copy that meets a line which some core's scalar cache has changed.
void CheckLines(const Range &range, bool write, const Access &now) {
  if (machine->lines.empty()) return;
  for (uint64_t line = range.at / kLine; line * kLine < range.end; ++line) {
    const auto found = machine->lines.find(LineKey(range, line));
    if (found == machine->lines.end()) continue;
    const Line &met = found->second;
    const bool shared = write && met.write.core != now.core && Live(met.write);
    if (!met.dirty && !shared) continue;
    AddFault("cache", Where(machine->tensors[range.tensor], line * kLine) +
                          (met.dirty ? ": a copy meets a line that is still in a scalar cache, written at "
                                     : ": a copy writes to a line that another core's scalar writes share, at ") +
                          Describe(met.write.site),
             now.site, std::to_string(met.write.site));
  }
}

bool Access1(const Gm &gm, uint64_t bytes, bool write, const Access &now) {
  Range range;
  if (!InBounds(gm, bytes, now.site, range)) return false;
  Touch(range, write, now);
  CheckLines(range, write, now);
  return true;
}

// A tensor's own address counts as aligned.
bool Aligned(const Range &range, uint32_t bytes, uint16_t site) {
  if (range.at % bytes == 0) return true;
  AddFault("alignment", "a scalar access is not aligned to its size", site);
  return false;
}

void CheckCache(const Range &range, const Access &now) {
  const Tensor &tensor = machine->tensors[range.tensor];
  const GmCell &cell = tensor.cells[range.at / kCell];
  const Access &write = cell.split ? machine->splits[cell.split - 1][range.at % kCell].write : cell.history.write;
  if (write.stamp == 0 || (write.core == now.core && write.pipe == Pipe::kScalar)) return;
  uint32_t cleaned = core->cleaned;
  const auto found = core->cleaned_lines.find(LineKey(range, range.at / kLine));
  if (found != core->cleaned_lines.end()) cleaned = std::max(cleaned, found->second);
  if (cleaned > write.stamp) return;
  AddFault("cache", Where(tensor, range.at) + ": GetValue without DataCacheCleanAndInvalid of what " +
                        PipeName(write.pipe) + " of core " + std::to_string(write.core) + " wrote at " +
                        Describe(write.site),
           now.site, std::to_string(write.site));
}

// Calls `visit` with the last write to each byte of a line.
template <typename F>
void ForWrites(const Range &range, F visit) {
  const Tensor &tensor = machine->tensors[range.tensor];
  const uint64_t first = range.at / kLine * kLine, last = std::min(first + kLine, tensor.bytes);
  for (uint64_t i = first / kCell; i * kCell < last; ++i) {
    const GmCell &cell = tensor.cells[i];
    if (!cell.split) visit(cell.history.write);
    if (!cell.split) continue;
    for (const History &each : machine->splits[cell.split - 1]) visit(each.write);
  }
}

// The cache writes whole lines back: what others put there meanwhile is lost.
void CheckLine(const Range &range, const Access &now, uint32_t met) {
  ForWrites(range, [&](const Access &write) {
    if (write.stamp == 0 || (write.core == now.core && write.pipe == Pipe::kScalar)) return;
    const bool shared = write.core != now.core && write.pipe != Pipe::kScalar && Live(write);
    if (!shared && write.stamp < met) return;
    AddFault("cache", Where(machine->tensors[range.tensor], range.at) +
                          ": a scalar write shares a line of 64 bytes with what " + PipeName(write.pipe) +
                          " of core " + std::to_string(write.core) + " wrote at " + Describe(write.site),
             now.site, std::to_string(write.site));
  });
}

// Brings a line into the cache if it is not there; gives when that was done.
uint32_t MeetLine(uint64_t key, const Access &now) {
  uint32_t cleaned = core->cleaned;
  const auto found = core->cleaned_lines.find(key);
  if (found != core->cleaned_lines.end()) cleaned = std::max(cleaned, found->second);
  uint32_t &met = core->met_lines[key];
  if (met == 0 || met < cleaned) met = now.stamp;
  return met;
}

void WriteLine(const Range &range, const Access &now) {
  const uint64_t key = LineKey(range, range.at / kLine);
  Line &line = machine->lines[key];
  const Access &before = line.write;
  if (before.stamp && before.core != now.core && (line.dirty || Live(before))) {
    AddFault("cache", Where(machine->tensors[range.tensor], range.at) +
                          ": scalar writes of two cores share a line of 64 bytes, core " +
                          std::to_string(before.core) + " at " + Describe(before.site),
             now.site, std::to_string(before.site));
  }
  CheckLine(range, now, MeetLine(key, now));
  line = {now, true};
}

}  // namespace

uint8_t *GmData(const Gm &gm) {
  const Tensor &tensor = machine->tensors[gm.tensor];
  return tensor.data + (gm.at - tensor.base);
}

Gm GlobalMemory(uint8_t *base, uint64_t bytes, Site site) {
  for (size_t i = 0; i < machine->tensors.size(); ++i) {
    const Tensor &tensor = machine->tensors[i];
    if (base < tensor.base || base > tensor.base + tensor.bytes) continue;
    if (base == tensor.base + tensor.bytes && tensor.bytes) continue;
    const uint64_t rest = tensor.base + tensor.bytes - base;
    return {base, base + std::min(bytes, rest), static_cast<int>(i)};
  }
  if (base) AddFault("bounds", "SetGlobalBuffer: an address outside of every tensor", SiteId(site));
  return {base, base, -1};
}

bool Instruction::Read(const Gm &gm, uint64_t bytes) {
  return Access1(gm, bytes, false, {stamp_, site_, core->index, pipe_});
}

bool Instruction::Write(const Gm &gm, uint64_t bytes) {
  return Access1(gm, bytes, true, {stamp_, site_, core->index, pipe_});
}

// Outputs and the workspace hold nothing before the launch.
void Instruction::Follow(const Ub &target, uint64_t bytes, const Gm &source) {
  Define(target, bytes);
  const Tensor &tensor = machine->tensors[source.tensor];
  const auto at = static_cast<uint64_t>(source.at - tensor.base);
  for (uint64_t i = 0; tensor.fresh && i < bytes; ++i) {
    if (!(tensor.cells[(at + i) / kCell].written >> (at + i) % kCell & 1)) Undefine(target + i, 1);
  }
}

const uint8_t *ScalarRead(const Gm &gm, uint32_t bytes, Site site) {
  const Access now{NextStamp(), SiteId(site), core->index, Pipe::kScalar};
  ++core->costs.gm_scalar;
  Range range;
  if (!InBounds(gm, bytes, now.site, range) || !Aligned(range, bytes, now.site)) return nullptr;
  CheckCache(range, now);
  MeetLine(LineKey(range, range.at / kLine), now);
  Touch(range, false, now);
  const Tensor &tensor = machine->tensors[range.tensor];
  const uint32_t written = tensor.cells[range.at / kCell].written >> range.at % kCell;
  if (tensor.fresh && ~written & ((uint64_t{1} << bytes) - 1)) {
    AddFault("undefined", "GetValue of bytes never written: " + Where(tensor, range.at), now.site, "get");
  }
  return GmData(gm);
}

uint8_t *ScalarWrite(const Gm &gm, uint32_t bytes, Site site) {
  const Access now{NextStamp(), SiteId(site), core->index, Pipe::kScalar};
  ++core->costs.gm_scalar;
  Range range;
  if (!InBounds(gm, bytes, now.site, range) || !Aligned(range, bytes, now.site)) return nullptr;
  WriteLine(range, now);
  Touch(range, true, now);
  return GmData(gm);
}

void CleanCache(const Gm &gm, bool whole, Site site) {
  const uint16_t id = SiteId(site);
  const uint32_t now = NextStamp();
  Range range;
  if (Skipped(id)) return;
  if (whole) {
    core->cleaned = now;
    for (auto &[key, line] : machine->lines) line.dirty &= line.write.core != core->index;
  } else if (InBounds(gm, 1, id, range)) {
    const uint64_t key = LineKey(range, range.at / kLine);
    core->cleaned_lines[key] = now;
    const auto found = machine->lines.find(key);
    if (found != machine->lines.end() && found->second.write.core == core->index) found->second.dirty = false;
  }
}

}  // namespace hostsim
