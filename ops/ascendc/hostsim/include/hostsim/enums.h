// Names and structs of the kernel API that carry no behaviour.
#pragma once

#include <cstdint>

using GM_ADDR = uint8_t *;

// In CANN these are global.
enum pipe_t { PIPE_S, PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_ALL };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

enum KernelMetaType { KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_MIX_AIV_1_0 };

namespace AscendC {

using TEventID = int8_t;

enum class TPosition : uint8_t { GM, VECIN, VECOUT, VECCALC };
using QuePosition = TPosition;

enum class HardEvent : uint8_t {
  MTE2_V, V_MTE2, MTE2_S, S_MTE2, MTE3_V, V_MTE3, MTE3_S, S_MTE3, V_S, S_V, MTE2_MTE3, MTE3_MTE2, V_V, MAX
};

enum class RoundMode : uint8_t {
  CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD
};
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

enum class CacheLine : uint64_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

// Lengths and gaps in blocks of 32 bytes.
struct DataCopyParams {
  uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;

  DataCopyParams() = default;
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src, uint16_t dst)
      : blockCount(count), blockLen(len), srcStride(src), dstStride(dst) {}
};

// Length in bytes; the gap on the GM side in bytes, on the UB side in blocks of 32 bytes.
struct DataCopyExtParams {
  uint16_t blockCount = 1;
  uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;

  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src, uint32_t dst, uint32_t reserved)
      : blockCount(count), blockLen(len), srcStride(src), dstStride(dst), rsv(reserved) {}
};

template <typename T>
struct DataCopyPadExtParams {
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;
  T paddingValue{};

  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

struct GatherMaskParams {
  uint8_t src0BlockStride = 1;
  uint16_t repeatTimes = 0, src0RepeatStride = 0;
  uint8_t src1RepeatStride = 0;

  GatherMaskParams() = default;
  GatherMaskParams(uint8_t block, uint16_t repeats, uint16_t stride0, uint8_t stride1)
      : src0BlockStride(block), repeatTimes(repeats), src0RepeatStride(stride0), src1RepeatStride(stride1) {}
};

}  // namespace AscendC
