// Tensors of the device seen as tensors of another: the CPU, over the same memory, or Meta.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <functional>

namespace hostnpu {

inline bool on_npu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

// The same; throws unless all of it lies in one block of the device's memory.
at::Tensor checked(const at::Tensor& tensor);

// The same bytes as a CPU tensor. It owns nothing, as a kernel owns nothing.
at::Tensor as_cpu(const at::Tensor& tensor);

// Without bytes.
at::Tensor as_meta(const at::Tensor& tensor);

// `value` with `change` applied to each tensor in it, devices and generators put on `device`.
c10::IValue convert(const c10::IValue& value, c10::DeviceType device,
                    const std::function<at::Tensor(const at::Tensor&)>& change);

}  // namespace hostnpu
