// A device for the dispatch key PrivateUse1 whose memory is the host's.
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device getDevice() const override { return {kType, 0}; }
};

struct HostMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = std::malloc(bytes + 1);
    return {memory, memory, std::free, c10::Device(kType, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

HostMemory memory;
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat>) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &memory, keys, type.value_or(at::kFloat), {});
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), &memory,
                                           keys, type.value_or(at::kFloat));
}

// Whole tensors only, which is what the tests copy.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool) {
  TORCH_CHECK(self.is_contiguous() && target.is_contiguous() && self.nbytes() == target.nbytes());
  std::memcpy(target.mutable_data_ptr(), self.const_data_ptr(), self.nbytes());
  return target;
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>()); }
