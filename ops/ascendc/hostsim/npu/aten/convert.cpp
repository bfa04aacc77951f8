#include "convert.hpp"

#include "../src/runtime.hpp"

namespace hostnpu {

at::Tensor checked(const at::Tensor& tensor) {
  std::int64_t span = tensor.numel() == 0 ? 0 : 1;
  for (std::int64_t i = 0; span && i < tensor.dim(); ++i) span += (tensor.size(i) - 1) * tensor.stride(i);
  const auto bytes = static_cast<std::size_t>(span) * tensor.element_size();
  TORCH_CHECK(on_device(tensor.data_ptr(), bytes), "host device: a tensor lies outside of the device's memory");
  return tensor;
}

at::Tensor as_cpu(const at::Tensor& tensor) {
  checked(tensor);
  auto same = at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  if (tensor.is_conj()) same._set_conj(true);
  if (tensor.is_neg()) same._set_neg(true);
  return same;
}

at::Tensor as_meta(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).pinned_memory(false));
}

c10::IValue convert(const c10::IValue& value, c10::DeviceType device,
                    const std::function<at::Tensor(const at::Tensor&)>& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(device);
  if (value.isGenerator() && value.toGenerator().device().is_privateuseone()) return {};
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

}  // namespace hostnpu
