// What went wrong, and where.
#include "machine.h"

namespace hostsim {

Machine *machine = nullptr;
Core *core = nullptr;

uint16_t SiteId(Site site) {
  struct Entry {
    const char *file = nullptr;
    int line = 0;
    uint16_t id = 0;
    uint64_t launch = 0;
  };
  static thread_local Entry recent[256];
  const auto key = reinterpret_cast<uint64_t>(site.file) * 31 + static_cast<uint64_t>(site.line);
  Entry &entry = recent[(key ^ key >> 8) & 255];
  if (entry.file == site.file && entry.line == site.line && entry.launch == machine->serial) return entry.id;
  const auto [found, added] = machine->site_ids.try_emplace(key, static_cast<uint16_t>(machine->sites.size()));
  if (added) machine->sites.push_back(site);
  entry = {site.file, site.line, found->second, machine->serial};
  return found->second;
}

bool Skipped(uint16_t site) {
  machine->sync_sites.insert(site);
  const Site &at = machine->sites[site];
  return at.line == machine->skip_line && machine->skip_file == at.file;
}

uint32_t NextStamp() {
  constexpr uint32_t kMost = 1u << 24;
  if (++machine->stamp < kMost) return machine->stamp;
  if (machine->stamp == kMost) AddFault("hang", "more than 2^24 instructions", 0);
  throw Abort{};
}

void AddFault(const char *kind, const std::string &text, uint16_t site, const std::string &same) {
  const std::string key = std::string(kind) + '|' + std::to_string(site) + '|' + same;
  const auto [found, added] = machine->seen.try_emplace(key, machine->faults.size());
  if (!added) {
    if (found->second < machine->faults.size()) ++machine->faults[found->second].count;
    return;
  }
  if (machine->faults.size() < kFaults) {
    const std::string who = core ? " (core " + std::to_string(core->index) + ")" : "";
    machine->faults.push_back({kind, text + who, site, 1});
  }
  if (machine->stop_at_first && core && !core->done) throw Abort{};
}

void AddFault(const char *kind, const std::string &text, uint16_t site) { AddFault(kind, text, site, text); }

void Report(const char *kind, const char *text, Site site) { AddFault(kind, text, SiteId(site)); }

std::string Describe(uint16_t site) {
  const Site &at = machine->sites[site];
  return std::string(at.file) + ":" + std::to_string(at.line);
}

const char *PipeName(Pipe pipe) {
  static const char *const names[] = {"S", "V", "MTE2", "MTE3"};
  return names[static_cast<int>(pipe)];
}

std::string UbName(uint32_t at) {
  for (const auto &[ub, site] : core->buffers) {
    if (at >= ub.begin && at < ub.end) {
      return "UB of " + Describe(site) + " +" + std::to_string(at - ub.begin);
    }
  }
  return "UB +" + std::to_string(at);
}

void AddRace(const char *what, const Access &before, Pipe pipe, uint16_t site, const std::string &where) {
  const bool read_before = what[2] == 'R', read_after = what[0] == 'R';
  std::string text = std::string(what) + " on " + where + ": " + PipeName(pipe) + (read_after ? " reads" : " writes") +
                     " without order what " + PipeName(before.pipe) + (read_before ? " reads" : " writes") + " at " +
                     Describe(before.site);
  const bool cores = before.core != core->index;
  if (cores) text += " on core " + std::to_string(before.core);
  const std::string same = what + std::to_string(before.site) + PipeName(pipe) + PipeName(before.pipe);
  AddFault(cores ? "cores" : "race", text, site, same);
}

}  // namespace hostsim
