// Every plain operator on the device: the CPU's, over the same memory, in the order of the stream.
//
// While the current stream is lazy or captured the operator is queued. Its outputs are then laid out
// by its Meta kernel; one without, whose outputs depend on the data, waits for the stream, and fails
// in a capture, as on the device.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <set>

#include "../src/runtime.hpp"
#include "convert.hpp"

extern "C" int hostnpu_immediate(void* stream);
extern "C" int aclrtSynchronizeStream(void* stream);
extern "C" const char* aclGetRecentErrMsg();

namespace hostnpu {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

void* current_stream() {
  const c10::impl::VirtualGuardImpl device(c10::DeviceType::PrivateUse1);
  return device.getStream(device.getDevice()).native_handle();
}

void check(int code) { TORCH_CHECK(code == kOk, "host device: ", aclGetRecentErrMsg()); }

// Runs `op` on `stack` as the innermost call: no autograd, no Python modes.
void call(const OperatorHandle& op, Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard python(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  op.callBoxed(&stack);
}

bool mutates(const c10::AliasInfo* info) { return info && info->isWrite(); }

// Whether every output is an argument, or nothing is returned.
bool all_in_place(const c10::FunctionSchema& schema) {
  for (const auto& output : schema.returns()) {
    if (!mutates(output.alias_info())) return false;
  }
  return true;
}

bool only_tensors(const c10::FunctionSchema& schema) {
  for (const auto& output : schema.returns()) {
    if (output.type()->kind() != c10::TypeKind::TensorType) return false;
  }
  return true;
}

// Operators that take tensors of the host beside those of the device, with elements.
bool takes_host_tensors(const OperatorHandle& op) {
  static const std::set<std::string> names{
      "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_foreach_copy_",
  };
  return names.count(op.operator_name().name) > 0;
}

// A tensor of the host is no operand that the device indexes or writes, whatever lies beside it.
void refuse_host_target(const OperatorHandle& op, const Stack& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool indexed = i == 0 && takes_host_tensors(op);
    if (!arguments[i].isTensor() || !(indexed || mutates(op.schema().arguments()[i].alias_info()))) continue;
    const auto& tensor = arguments[i].toTensor();
    TORCH_CHECK(!tensor.defined() || on_npu(tensor), op.operator_name().name,
                ": expected all tensors to be on npu:0, found one on ", tensor.device());
  }
}

// CPU tensors are read as they are now: on the device they would be arguments of the launch.
Stack on_cpu(const OperatorHandle& op, const Stack& arguments, bool now) {
  Stack stack;
  for (const auto& value : arguments) {
    stack.push_back(convert(value, at::kCPU, [&](const at::Tensor& tensor) {
      if (on_npu(tensor)) return as_cpu(tensor);
      TORCH_CHECK(!tensor.defined() || tensor.dim() == 0 || takes_host_tensors(op), op.operator_name().name,
                  ": expected all tensors to be on npu:0, found one on ", tensor.device());
      const bool keep = now || !tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number();
      return keep ? tensor : tensor.clone();
    }));
  }
  return stack;
}

at::Tensor like(const at::Tensor& result) {
  return at::empty_strided(result.sizes(), result.strides(),
                           result.options().device(c10::DeviceType::PrivateUse1).requires_grad(false));
}

// Tensors on the device for `results`: an argument where the schema says so, else a fresh one.
Stack outputs(const c10::FunctionSchema& schema, const Stack& arguments, const Stack& results) {
  Stack out;
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    const auto* info = schema.returns()[i].alias_info();
    std::size_t source = schema.arguments().size();
    for (std::size_t j = 0; mutates(info) && j < schema.arguments().size(); ++j) {
      const auto* other = schema.arguments()[j].alias_info();
      if (other && *other == *info) source = j;
    }
    if (source < schema.arguments().size()) {
      out.push_back(arguments[source]);
    } else {
      out.push_back(convert(results.at(i), c10::DeviceType::PrivateUse1,
                            [](const at::Tensor& tensor) { return tensor.defined() ? like(tensor) : tensor; }));
    }
  }
  return out;
}

void store(const c10::IValue& result, const c10::IValue& target) {
  if (result.isTensor()) {
    if (result.toTensor().defined()) target.toTensor().copy_(result.toTensor());
  } else if (result.isTensorList()) {
    const auto from = result.toTensorVector(), to = target.toTensorVector();
    for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }
}

// Copies `results` to the fresh ones of `targets` (aliases of the outputs).
void store_all(const c10::FunctionSchema& schema, const Stack& results, const Stack& targets) {
  const at::AutoDispatchBelowADInplaceOrView below;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!mutates(schema.returns()[i].alias_info())) store(results[i], targets[i]);
  }
}

Stack run_now(const OperatorHandle& op, const Stack& arguments) {
  Stack stack = on_cpu(op, arguments, true);
  call(op, stack);
  Stack out = outputs(op.schema(), arguments, stack);
  store_all(op.schema(), stack, on_cpu(op, out, true));
  return out;
}

// Nothing if the layout of the outputs is not known before the operator runs.
std::optional<Stack> layout(const OperatorHandle& op, const Stack& arguments) {
  if (all_in_place(op.schema())) return outputs(op.schema(), arguments, {});
  if (!only_tensors(op.schema())) return std::nullopt;
  Stack stack;
  for (const auto& value : arguments) {
    stack.push_back(convert(value, at::kMeta, [](const at::Tensor& tensor) {
      return on_npu(tensor) || (tensor.defined() && tensor.dim() > 0) ? as_meta(tensor) : tensor;
    }));
  }
  try {
    call(op, stack);
    return outputs(op.schema(), arguments, stack);
  } catch (const std::exception&) {
    return std::nullopt;  // the operator itself tells what is wrong
  }
}

void fallback(const OperatorHandle& op, Stack* stack) {
  const Stack arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  refuse_host_target(op, arguments);
  void* const stream = current_stream();
  std::optional<Stack> out;
  if (!hostnpu_immediate(stream)) out = layout(op, arguments);
  if (out) {
    check(launch(stream, [op, inputs = on_cpu(op, arguments, false), targets = on_cpu(op, *out, true)] {
      Stack work = inputs;
      call(op, work);
      store_all(op.schema(), work, targets);
    }));
  } else {
    check(aclrtSynchronizeStream(stream));
    out = run_now(op, arguments);
  }
  for (auto& value : *out) stack->push_back(std::move(value));
}

// What torch_npu does itself: memory, layouts and copies between devices.
bool keep(const OperatorHandle& op) {
  static const std::set<std::string> names{
      "_copy_from", "_copy_from_and_resize", "_local_scalar_dense", "_pin_memory", "as_strided_",
      "copy_",      "empty",                 "empty_like",          "empty_strided", "is_pinned",
      "is_set_to",  "new_empty_strided",     "record_stream",       "resize_",       "resize_as_",
      "set_",
  };
  if (names.count(op.operator_name().name.substr(6))) return true;
  for (const auto& output : op.schema().returns()) {
    if (output.alias_info() && !output.alias_info()->isWrite()) return true;
  }
  return false;
}

// torch_npu has one operator of CANN for this, also under autograd.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale,
                     bool grouped) {
  return std::get<0>(
      at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, causal, {}, scale, grouped));
}

struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace
}  // namespace hostnpu

extern "C" int hostnpu_register_fallback() {
  using namespace hostnpu;
  constexpr auto key = c10::DispatchKey::PrivateUse1;
  static auto* const library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  Silence silence;  // replacing torch_npu's kernels is meant
  const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  auto& dispatcher = c10::Dispatcher::singleton();
  int count = 0;
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(key)) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || keep(*op)) continue;
    const std::string text = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library->impl(text.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
    ++count;
  }
  // Through copy_ alone, which stays torch_npu's.
  library->impl("_to_copy", TORCH_FN(at::native::_to_copy));
  library->impl("clone", TORCH_FN(at::native::clone));
  library->impl("contiguous", TORCH_FN(at::native::contiguous));
  static auto* const autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  autograd->impl("scaled_dot_product_attention", TORCH_FN(attention));
  return count;
}
