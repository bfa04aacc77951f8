// The result of a launch, as JSON.
#include "json.h"
#include "machine.h"

namespace hostsim {
namespace {

std::string Place(uint16_t id) {
  return Quoted(machine->sites[id].file) + "," + std::to_string(machine->sites[id].line);
}

std::string FaultText(const Fault &fault) {
  return "[" + Quoted(fault.kind) + "," + Quoted(fault.text) + "," + Place(fault.site) + "," +
         std::to_string(fault.count) + "]";
}

std::string PipeText(const PipeCost &pipe) {
  return "[" + std::to_string(pipe.instructions) + "," + std::to_string(pipe.bytes) + "," +
         std::to_string(pipe.bursts) + "]";
}

std::string CoreText(const Core &each) {
  const Costs &costs = each.costs;
  return Object({{"pipes", Listed(costs.pipe, PipeText)},
                 {"other_scalar", std::to_string(costs.scalar)},
                 {"ub_scalar", std::to_string(costs.ub_scalar)},
                 {"gm_scalar", std::to_string(costs.gm_scalar)},
                 {"flags", std::to_string(costs.flags)},
                 {"barriers", std::to_string(costs.barriers)},
                 {"syncs", std::to_string(costs.syncs)},
                 {"ub_peak", std::to_string(each.ub_peak)}});
}

}  // namespace

std::string Json() {
  return Object({{"faults", Listed(machine->faults, FaultText)},
                 {"cores", Listed(machine->cores, CoreText)},
                 {"sync_sites", Listed(machine->sync_sites, [](uint16_t id) { return "[" + Place(id) + "]"; })}});
}

}  // namespace hostsim
