#include "gather_selection_kv_cache_tiling.h"

#include "row_tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

enum Input : size_t { kKind, kIndex, kLength, kSource, kWork, kWorkCount, kFresh, kBacking, kBuffer, kFilled };

struct Sizes {
  int64_t rows, queries, top_k, entries, row, first_row;

  explicit Sizes(const gert::TilingContext *context)
      : rows(Dim(context, kKind, 0)), queries(Dim(context, kKind, 1)), top_k(Dim(context, kKind, 2)),
        entries(queries * top_k), row(Dim(context, kBacking, 1)),
        first_row(*context->GetAttrs()->GetAttrPointer<int64_t>(0)) {}
};

ge::graphStatus CheckPlan(const gert::TilingContext *context, const Sizes &size) {
  TIERKV_REQUIRE(HasShape(context, kIndex, {size.rows, size.queries, size.top_k}), context, "index",
                 "must be [%ld, %ld, %ld]", size.rows, size.queries, size.top_k);
  TIERKV_REQUIRE(HasShape(context, kLength, {size.rows, size.queries}), context, "length", "must be [%ld, %ld]",
                 size.rows, size.queries);
  TIERKV_REQUIRE(HasShape(context, kSource, {size.rows}), context, "source", "must be [%ld]", size.rows);
  TIERKV_REQUIRE(HasShape(context, kWork, {size.rows, size.entries}), context, "work", "must be [%ld, %ld]", size.rows,
                 size.entries);
  TIERKV_REQUIRE(HasShape(context, kWorkCount, {size.rows}), context, "work_count", "must be [%ld]", size.rows);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus CheckRows(const gert::TilingContext *context, const Sizes &size) {
  const int64_t width = RowBytes(context, kBacking);
  TIERKV_REQUIRE(ShapeOf(context, kBacking).GetDimNum() == 2, context, "backing", "must be [N, row]");
  TIERKV_REQUIRE(width >= 1 && width <= kMaxRowBytes, context, "backing", "rows must have 1 to %d bytes, got %ld",
                 kMaxRowBytes, width);
  TIERKV_REQUIRE(HasShape(context, kFresh, {size.rows, size.queries, size.row}), context, "fresh",
                 "must be [%ld, %ld, %ld], rows like backing's", size.rows, size.queries, size.row);
  const int64_t rows = Dim(context, kBuffer, 0), queries = Dim(context, kBuffer, 1);
  TIERKV_REQUIRE(HasShape(context, kBuffer, {rows, queries, size.top_k, size.row}) && queries >= size.queries, context,
                 "buffer", "must be [R, at least %ld, %ld, %ld], rows like backing's", size.queries, size.top_k,
                 size.row);
  TIERKV_REQUIRE(HasShape(context, kFilled, {rows, queries}), context, "filled", "must be [%ld, %ld]", rows, queries);
  TIERKV_REQUIRE(size.first_row >= 0 && size.first_row + size.rows <= rows, context, "first_row",
                 "%ld and the %ld rows from there are not in a buffer of %ld rows", size.first_row, size.rows, rows);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus Tile(gert::TilingContext *context) {
  TIERKV_CHECKED(CheckEntries(context, kKind, "kind"));
  const Sizes size(context);
  TIERKV_CHECKED(CheckPlan(context, size));
  TIERKV_CHECKED(CheckRows(context, size));
  const Cores cores(context);
  const int64_t blocks = Shares(size.rows * size.entries, cores.count).cores, width = RowBytes(context, kBacking);
  const RowBatch batch(width);
  // A core takes `rows` of `rows * blocks` shares.
  const int64_t most_rows = DivideUp(size.rows, blocks) + 1;
  const int64_t meta = 2 * most_rows * RoundUp(size.queries * 4, kBlockBytes);
  const int64_t tables = RoundUp(size.entries, kBlockBytes) + 2 * RoundUp(size.entries * 4, kBlockBytes);
  const int64_t slice = std::min(size.entries, blocks * batch.rows / size.rows);
  TIERKV_REQUIRE(slice >= 1 && batch.ub + kEraserBytes + meta + tables <= static_cast<int64_t>(cores.ub), context,
                 "kind", "%ld rows are too many for %ld cores", size.rows, blocks);

  GatherSelectionKvCacheTilingData data;
  data.set_rows(size.rows);
  data.set_queries(size.queries);
  data.set_topK(size.top_k);
  data.set_firstRow(size.first_row);
  data.set_bufferQueries(Dim(context, kBuffer, 1));
  data.set_rowBytes(width);
  data.set_batchRows(batch.rows);
  data.set_eraserBytes(kEraserBytes);
  data.set_mostRows(most_rows);
  data.set_slice(slice);
  data.set_sliceEach(DivideUp(size.rows * slice, blocks));
  Launch(context, data, blocks, true);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(GatherSelectionKvCache).Tiling(Tile);

}  // namespace
}  // namespace optiling
