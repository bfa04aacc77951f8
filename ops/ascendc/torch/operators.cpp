// tierkv's operators on PrivateUse1. Core declares them; here is which CANN operator does each.
#include <torch/library.h>

#include "operator.h"

namespace tierkv {
namespace {

constexpr Description kDescriptions[] = {
    {"append", "DsaAppend", "parts rows fresh? out? <bytes>"},
    {"plan", "DsaPlan",
     "ids lanes kv_len q_len stable block_table slot_of counters page "
     "out_ids kind index length miss_id miss_from miss_count"},
    {"place_set_fifo", "DsaCommit",
     "lanes kind index miss_id miss_from miss_count tables[0] tables[1] tables[2] - counters 0 hashing slot count"},
    {"place_clock", "DsaCommit",
     "lanes kind index miss_id miss_from miss_count tables[0] tables[1] tables[2] tables[3] counters 1 hashing "
     "slot count"},
    {"serve", "DsaServe", "lanes kind index fresh pool backing out"},
    {"install", "DsaInstall", "lanes miss_from miss_count slot selection pool"},
    {"plan_gather", "GatherSelectionPlan",
     "ids lanes kv_len q_len stable block_table id_at row_of counters page first_row across "
     "out_ids kind index length miss_id miss_from miss_count source work work_count"},
    {"place_gather", "GatherSelectionPlace",
     "lanes ids kind miss_from id_at row_of counters first_row slot count"},
    {"gather", "GatherSelectionKvCache",
     "kind index length source work work_count fresh backing buffer filled! first_row"},
};

// What runs on a worker thread of the host.
constexpr const char* kHostOnly[] = {"submit", "submit_install", "wait"};

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK(false, op.schema().name(), ": there is no worker thread beside this device (set schedule: inline)");
}

}  // namespace

TORCH_LIBRARY_IMPL(tierkv, PrivateUse1, m) {
  for (const Description& description : kDescriptions) {
    m.impl(description.operation, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Operator>(description)));
  }
  for (const char* name : kHostOnly) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace tierkv

extern "C" {

// Null, or what went wrong.
const char* tierkv_ascendc_open(const char* library) { return tierkv::Device::get().open(library); }

void tierkv_ascendc_set_stream_hook(tierkv::StreamHook hook) { tierkv::Device::get().set_stream_hook(hook); }
}
