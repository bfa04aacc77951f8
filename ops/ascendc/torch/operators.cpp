// tierkv's operators on PrivateUse1. Core declares them; tierkv_ascendc/operators.py says which CANN
// operator does each.
#include <torch/library.h>

#include "operator.h"
#include "tierkv_operators.h"

namespace tierkv {
namespace {

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
