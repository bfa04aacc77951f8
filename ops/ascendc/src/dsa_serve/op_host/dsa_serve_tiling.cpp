#include "dsa_serve_tiling.h"

#include "row_tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

enum Input : size_t { kLanes, kKind, kIndex, kFresh, kPool, kBacking };

ge::graphStatus Check(const gert::TilingContext *context) {
  TIERKV_CHECKED(CheckEntries(context, kKind, "kind"));
  const int64_t rows = Dim(context, kKind, 0), queries = Dim(context, kKind, 1), top_k = Dim(context, kKind, 2);
  TIERKV_REQUIRE(HasShape(context, kIndex, {rows, queries, top_k}), context, "index", "must be [%ld, %ld, %ld]", rows,
                 queries, top_k);
  TIERKV_REQUIRE(HasShape(context, kLanes, {rows}), context, "lanes", "must be [%ld]", rows);
  const int64_t width = RowBytes(context, kBacking);
  TIERKV_REQUIRE(ShapeOf(context, kBacking).GetDimNum() == 2, context, "backing", "must be [N, row]");
  TIERKV_REQUIRE(width >= 1 && width <= kMaxRowBytes, context, "backing", "rows must have 1 to %d bytes, got %ld",
                 kMaxRowBytes, width);
  TIERKV_REQUIRE(HasShape(context, kFresh, {rows, queries, Dim(context, kBacking, 1)}), context, "fresh",
                 "must be [%ld, %ld, %ld], rows like backing's", rows, queries, Dim(context, kBacking, 1));
  const int64_t slots = Dim(context, kPool, 1);
  TIERKV_REQUIRE(HasShape(context, kPool, {Dim(context, kPool, 0), slots, Dim(context, kBacking, 1)}), context, "pool",
                 "must be [lanes, P, %ld], rows like backing's", Dim(context, kBacking, 1));
  TIERKV_REQUIRE(slots <= kMaxSlots, context, "pool", "must have at most %d slots a lane, got %ld", kMaxSlots, slots);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus Tile(gert::TilingContext *context) {
  TIERKV_CHECKED(Check(context));
  const int64_t queries = Dim(context, kKind, 1), entries = queries * Dim(context, kKind, 2);
  const int64_t width = RowBytes(context, kBacking);
  const Shares shares(Dim(context, kKind, 0) * entries, Cores(context).count);
  DsaServeTilingData data;
  data.set_each(shares.each);
  data.set_more(shares.more);
  data.set_queries(queries);
  data.set_entries(entries);
  data.set_slots(Dim(context, kPool, 1));
  data.set_rowBytes(width);
  data.set_batchRows(RowBatch(width).rows);
  data.set_eraserBytes(kEraserBytes);
  Launch(context, data, shares.cores, true);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(DsaServe).Tiling(Tile);

}  // namespace
}  // namespace optiling
