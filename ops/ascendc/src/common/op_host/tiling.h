// What the operators' tilings share: shapes, refusals, and even shares of work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "log/log.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tierkv_constants.h"

// Log why `argument`, a string, cannot be served, printf-like from the third argument on, and give up.
#define TIERKV_REFUSE(context, argument, text, ...)                                \
  do {                                                                             \
    OP_LOGE((context)->GetNodeName(), "%s: " text, argument, ##__VA_ARGS__);       \
    return ge::GRAPH_FAILED;                                                       \
  } while (false)

// The same, unless `holds`.
#define TIERKV_REQUIRE(holds, context, argument, ...)                              \
  do {                                                                             \
    if (!(holds)) TIERKV_REFUSE(context, argument, __VA_ARGS__);                   \
  } while (false)

// Hand on the failure of a check that has said why.
#define TIERKV_CHECKED(status)                                                     \
  do {                                                                             \
    if ((status) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;                    \
  } while (false)

namespace tierkv {

// The shape of an input as it lies in memory.
inline const gert::Shape &ShapeOf(const gert::TilingContext *context, size_t input) {
  return context->GetInputShape(input)->GetStorageShape();
}

// One dimension; -1 if there is none, which no check accepts.
inline int64_t Dim(const gert::TilingContext *context, size_t input, size_t dim) {
  const gert::Shape &shape = ShapeOf(context, input);
  return dim < shape.GetDimNum() ? shape.GetDim(dim) : -1;
}

// Whether an input has exactly these dimensions.
inline bool HasShape(const gert::TilingContext *context, size_t input, std::initializer_list<int64_t> want) {
  const gert::Shape &shape = ShapeOf(context, input);
  if (shape.GetDimNum() != want.size()) return false;
  size_t dim = 0;
  return std::all_of(want.begin(), want.end(), [&](int64_t size) { return shape.GetDim(dim++) == size; });
}

inline ge::DataType TypeOf(const gert::TilingContext *context, size_t input) {
  return context->GetInputDesc(input)->GetDataType();
}

inline constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t RoundUp(int64_t a, int64_t unit) { return DivideUp(a, unit) * unit; }

// Of a power of two.
inline int64_t BitsOf(int64_t value) {
  int64_t bits = 0;
  while (int64_t{1} << bits < value) ++bits;
  return bits;
}

constexpr int64_t kScratchBytes = 8 << 10;  // the end of UB, where instructions like Select keep their own data
constexpr int64_t kTallyBytes = 64;         // of a core's counts in workspace

// Vector cores of the device, and bytes of a core's unified buffer.
struct Cores {
  int64_t count;
  uint64_t ub;

  explicit Cores(const gert::TilingContext *context) {
    const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
    count = platform.GetCoreNumAiv();
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
  }
};

// `units` of work in even shares: the first `more` cores get `each + 1`, the others `each`. Core `i`
// starts at `i * each + min(i, more)`. At most `units` cores are used, at least one.
struct Shares {
  int64_t cores, each, more;

  Shares(int64_t units, int64_t available)
      : cores(std::max<int64_t>(1, std::min(units, available))), each(units / cores), more(units % cores) {}
};

// Whether an input, which `name` names, is [B, Q, K] within the limits.
inline ge::graphStatus CheckEntries(const gert::TilingContext *context, size_t input, const char *name) {
  const int64_t rows = Dim(context, input, 0), queries = Dim(context, input, 1), top_k = Dim(context, input, 2);
  TIERKV_REQUIRE(HasShape(context, input, {rows, queries, top_k}) && rows > 0, context, name,
                 "must be [B, Q, K], B at least 1");
  TIERKV_REQUIRE(queries >= 1 && queries <= kMaxQueries, context, name, "must have 1 to %d queries, got %ld",
                 kMaxQueries, queries);
  TIERKV_REQUIRE(top_k >= 1 && top_k <= kMaxTopK, context, name, "must have 1 to %d entries a query, got %ld",
                 kMaxTopK, top_k);
  TIERKV_REQUIRE(queries * top_k <= kMaxEntries, context, name, "must have at most %d entries a row, got %ld",
                 kMaxEntries, queries * top_k);
  TIERKV_REQUIRE(rows <= kMaxRows / (queries * top_k), context, name, "has too many rows, %ld", rows);
  return ge::GRAPH_SUCCESS;
}

// Hand `data` to `cores` cores, with `workspace` bytes of GM to share. With `together`, all of them start at
// once: a kernel that waits for its other cores could wait for ever beside another stream's.
template <typename Data>
void Launch(gert::TilingContext *context, Data &data, int64_t cores, bool together, int64_t workspace = 0) {
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  data.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(data.GetDataSize());
  context->SetBlockDim(static_cast<uint32_t>(cores));
  context->SetScheduleMode(together ? 1 : 0);
  context->GetWorkspaceSizes(1)[0] = workspace > 0 ? platform.GetLibApiWorkSpaceSize() + workspace : 0;
}

}  // namespace tierkv
