// What launching needs of CANN's C interface, declared here: building takes PyTorch's headers alone.
#pragma once

#include <cstdint>

namespace tierkv::acl {

struct Tensor;
struct Executor;
using Stream = void*;

// aclDataType and aclFormat.
enum DataType : int { kInt8 = 2, kInt32 = 3, kUint8 = 4, kInt16 = 6, kInt64 = 9 };
constexpr int kFormatNd = 2;

using CreateTensor = Tensor* (*)(const std::int64_t* sizes, std::uint64_t dims, int type, const std::int64_t* strides,
                                 std::int64_t offset, int format, const std::int64_t* storage_sizes,
                                 std::uint64_t storage_dims, void* data);
using DestroyTensor = int (*)(const Tensor*);
using RecentError = const char* (*)();
// The second phase of every operator; the first differs in its arguments.
using Run = int (*)(void* workspace, std::uint64_t bytes, Executor*, Stream);

}  // namespace tierkv::acl
