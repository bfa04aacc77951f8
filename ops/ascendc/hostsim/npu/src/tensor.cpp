#include "tensor.hpp"

#include <cstring>

#include "runtime.hpp"

namespace hostnpu {

// aclDataType: 0 float, 1 float16, 2 int8, 3 int32, 4 uint8, 6 int16, 7 uint16, 8 uint32, 9 int64,
// 10 uint64, 11 double, 12 bool, 16 complex64, 17 complex128, 27 bfloat16.
std::size_t item_size(int type) {
  switch (type) {
    case 2: case 4: case 12: return 1;
    case 1: case 6: case 7: case 27: return 2;
    case 0: case 3: case 8: return 4;
    case 9: case 10: case 11: case 16: return 8;
    case 17: return 16;
    default: return 0;
  }
}

std::string refusal(const aclTensor& tensor) {
  const std::size_t item = item_size(tensor.type);
  if (item == 0) return "data type " + std::to_string(tensor.type) + " is unknown";
  std::int64_t elements = 1;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != elements) return "not contiguous";
    elements *= tensor.sizes[i];
  }
  if (elements == 0) return "";
  // Up to the first element of the last row: rows that are parts of wider ones end past the memory.
  const auto reach = elements - (tensor.sizes.empty() ? 0 : tensor.sizes.back() - 1);
  const auto* begin = static_cast<const char*>(tensor.data) + tensor.offset * static_cast<std::int64_t>(item);
  if (!on_device(begin, static_cast<std::size_t>(reach) * item)) return "not in memory of the device";
  return "";
}

}  // namespace hostnpu

extern "C" {

aclTensor* aclCreateTensor(const std::int64_t* sizes, std::uint64_t rank, int type, const std::int64_t* strides,
                           std::int64_t offset, int format, const std::int64_t* storage, std::uint64_t storage_rank,
                           void* data) {
  auto* tensor = new aclTensor;
  tensor->sizes.assign(sizes, sizes + rank);
  tensor->strides.assign(strides, strides + rank);
  tensor->storage.assign(storage, storage + storage_rank);
  tensor->offset = offset;
  tensor->type = type;
  tensor->format = format;
  tensor->data = data;
  return tensor;
}
int aclDestroyTensor(const aclTensor* tensor) {
  delete tensor;
  return 0;
}
int aclGetViewShape(const aclTensor* tensor, std::int64_t** sizes, std::uint64_t* rank) {
  *rank = tensor->sizes.size();
  *sizes = new std::int64_t[*rank];  // the caller's, to delete
  std::memcpy(*sizes, tensor->sizes.data(), *rank * sizeof(std::int64_t));
  return 0;
}

aclScalar* aclCreateScalar(const void* value, int type) {
  auto* scalar = new aclScalar;
  scalar->type = type;
  std::memcpy(scalar->value, value, hostnpu::item_size(type));
  return scalar;
}
int aclDestroyScalar(const aclScalar* scalar) {
  delete scalar;
  return 0;
}

aclIntArray* aclCreateIntArray(const std::int64_t* values, std::uint64_t count) {
  return new aclIntArray{{values, values + count}};
}
int aclDestroyIntArray(const aclIntArray* array) {
  delete array;
  return 0;
}
aclFloatArray* aclCreateFloatArray(const float* values, std::uint64_t count) {
  return new aclFloatArray{{values, values + count}};
}
int aclDestroyFloatArray(const aclFloatArray* array) {
  delete array;
  return 0;
}
aclBoolArray* aclCreateBoolArray(const bool* values, std::uint64_t count) {
  return new aclBoolArray{{values, values + count}};
}
int aclDestroyBoolArray(const aclBoolArray* array) {
  delete array;
  return 0;
}

// A list owns its members, as CANN's does.
aclTensorList* aclCreateTensorList(const aclTensor* const* values, std::uint64_t count) {
  return new aclTensorList{{values, values + count}};
}
int aclDestroyTensorList(const aclTensorList* list) {
  for (const auto* tensor : list->values) delete tensor;
  delete list;
  return 0;
}
aclScalarList* aclCreateScalarList(const aclScalar* const* values, std::uint64_t count) {
  return new aclScalarList{{values, values + count}};
}
int aclDestroyScalarList(const aclScalarList* list) {
  for (const auto* scalar : list->values) delete scalar;
  delete list;
  return 0;
}
}
