// What the operators that move rows share: how wide rows are, and how many a batch holds.
#pragma once

#include "tiling.h"

namespace tierkv {

constexpr int64_t kBlockBytes = 32;           // UB is addressed in these
constexpr int64_t kRowBufferBytes = 40 << 10; // of each of the two; more buys no bandwidth
constexpr int64_t kMostBatchRows = 128;
constexpr int64_t kEraserBytes = 8 << 10;     // zeros, which RowEraser writes

// Bytes of a row of an input, which is the last dimension; -1 if there is none.
inline int64_t RowBytes(const gert::TilingContext *context, size_t input) {
  const gert::Shape &shape = ShapeOf(context, input);
  const int64_t width = Dim(context, input, shape.GetDimNum() - 1);
  return width < 0 ? -1 : width * ge::GetSizeByDataType(TypeOf(context, input));
}

// How many rows RowCopier moves at once, and the UB it takes for that.
struct RowBatch {
  int64_t rows, ub;

  explicit RowBatch(int64_t row_bytes) {
    const int64_t slot = RoundUp(row_bytes, kBlockBytes);
    rows = std::clamp<int64_t>(kRowBufferBytes / slot, 1, kMostBatchRows);
    ub = 2 * rows * slot + RoundUp(rows * 8, kBlockBytes) + RoundUp(rows * 4, kBlockBytes);
  }
};

}  // namespace tierkv
