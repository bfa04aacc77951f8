#include "dsa_append_tiling.h"

#include "row_tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

enum Input : size_t { kPart, kRows, kFresh, kBacking };

bool IsEmpty(const gert::TilingContext *context, Input input) { return ShapeOf(context, input).GetShapeSize() == 0; }

ge::graphStatus Check(const gert::TilingContext *context, int64_t width) {
  const int64_t rows = Dim(context, kPart, 0), queries = Dim(context, kPart, 1), stride = Dim(context, kPart, 2);
  TIERKV_REQUIRE(rows > 0 && queries > 0 && HasShape(context, kPart, {rows, queries, stride}), context, "part",
                 "must be [B, Q, row], none of them 0");
  TIERKV_REQUIRE(width >= 1 && width <= kMaxRowBytes, context, "width", "must be 1 to %d bytes, got %ld", kMaxRowBytes,
                 width);
  TIERKV_REQUIRE(RowBytes(context, kPart) >= width, context, "part", "rows must have at least `width` bytes, %ld",
                 width);
  TIERKV_REQUIRE(HasShape(context, kRows, {rows, queries}), context, "rows", "must be [%ld, %ld]", rows, queries);
  if (!IsEmpty(context, kFresh)) {
    TIERKV_REQUIRE(HasShape(context, kFresh, {rows, queries, Dim(context, kFresh, 2)}), context, "fresh",
                   "must be [%ld, %ld, row], or empty", rows, queries);
    TIERKV_REQUIRE(RowBytes(context, kFresh) >= width, context, "fresh", "rows must have at least `width` bytes, %ld",
                   width);
  }
  if (!IsEmpty(context, kBacking)) {
    TIERKV_REQUIRE(ShapeOf(context, kBacking).GetDimNum() == 2, context, "backing", "must be [N, row], or empty");
    TIERKV_REQUIRE(RowBytes(context, kBacking) >= width, context, "backing",
                   "rows must have at least `width` bytes, %ld", width);
  }
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus Tile(gert::TilingContext *context) {
  const int64_t width = *context->GetAttrs()->GetAttrPointer<int64_t>(0);
  TIERKV_CHECKED(Check(context, width));
  const int64_t rows = Dim(context, kPart, 0) * Dim(context, kPart, 1);
  const Cores cores(context);
  const Shares shares(rows, cores.count);
  const RowBatch batch(width);
  TIERKV_REQUIRE(batch.ub + RoundUp((shares.each + 1) * 4, kBlockBytes) <= static_cast<int64_t>(cores.ub), context,
                 "rows", "%ld rows are too many for %ld cores", rows, shares.cores);

  DsaAppendTilingData data;
  data.set_each(shares.each);
  data.set_more(shares.more);
  data.set_width(width);
  data.set_batchRows(batch.rows);
  data.set_partStride(RowBytes(context, kPart));
  data.set_freshStride(IsEmpty(context, kFresh) ? 0 : RowBytes(context, kFresh));
  data.set_backingStride(IsEmpty(context, kBacking) ? 0 : RowBytes(context, kBacking));
  Launch(context, data, shares.cores, false);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(DsaAppend).Tiling(Tile);

}  // namespace
}  // namespace optiling
