// Arguments of aclnn functions: opaque to torch_npu, so their layout is ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Where a view lies: `data` is the start of the storage, `offset` and strides count elements.
struct aclTensor {
  std::vector<std::int64_t> sizes, strides, storage;
  std::int64_t offset = 0;
  int type = 0;  // aclDataType
  int format = 0;
  void* data = nullptr;
};

struct aclScalar {
  int type = 0;
  unsigned char value[16] = {};
};

struct aclIntArray {
  std::vector<std::int64_t> values;
};
struct aclFloatArray {
  std::vector<float> values;
};
struct aclBoolArray {
  std::vector<unsigned char> values;
};
struct aclTensorList {
  std::vector<const aclTensor*> values;
};
struct aclScalarList {
  std::vector<const aclScalar*> values;
};

namespace hostnpu {

// Bytes of an element of type `type`; 0 if the type is unknown.
std::size_t item_size(int type);

// What is wrong with `tensor` as an argument that a kernel gets as one block of memory; empty if
// nothing: contiguous, of a known type and inside memory that the device may address.
std::string refusal(const aclTensor& tensor);

}  // namespace hostnpu
