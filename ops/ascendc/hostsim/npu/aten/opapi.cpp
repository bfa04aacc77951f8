// libopapi: the only operators of CANN that exist here, which torch_npu's copies use.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "../src/executor.hpp"
#include "convert.hpp"

namespace {

at::ScalarType scalar_type(int type) {
  switch (type) {
    case 0: return at::kFloat;
    case 1: return at::kHalf;
    case 2: return at::kChar;
    case 3: return at::kInt;
    case 4: return at::kByte;
    case 6: return at::kShort;
    case 9: return at::kLong;
    case 11: return at::kDouble;
    case 12: return at::kBool;
    case 27: return at::kBFloat16;
    default: TORCH_CHECK(false, "host device: aclDataType ", type, " is unknown");
  }
}

at::Tensor view(const aclTensor& tensor) {
  const auto type = scalar_type(tensor.type);
  auto* begin = static_cast<char*>(tensor.data) + tensor.offset * static_cast<std::int64_t>(at::elementSize(type));
  return hostnpu::checked(at::from_blob(begin, tensor.sizes, tensor.strides, at::TensorOptions().dtype(type)));
}

}  // namespace

extern "C" {

int aclnnInplaceCopyGetWorkspaceSize(aclTensor* self, const aclTensor* source, std::uint64_t* bytes,
                                     aclOpExecutor** executor) {
  *bytes = 0;
  *executor = new aclOpExecutor{[to = *self, from = *source] {
    const at::AutoDispatchBelowADInplaceOrView below;
    view(to).copy_(view(from));
  }};
  return hostnpu::kOk;
}
int aclnnInplaceCopy(void*, std::uint64_t, aclOpExecutor* executor, void* stream) {
  return hostnpu::execute(executor, stream);
}
}
