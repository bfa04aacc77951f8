#include "gather_selection_plan_tiling.h"

#include "plan_tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

enum Input : size_t { kIds, kLanes, kIdAt = 6, kRowOf, kCounters };

constexpr int64_t kCompareUnit = 64;  // int32 that a compare takes
constexpr int64_t kJudgeBytes = 27;   // an entry, of EntryJudge
constexpr int64_t kLeastTile = 8 << 10;

struct Sizes {
  int64_t rows, queries, top_k, entries, lanes, places, page, first_row;
  bool across;

  explicit Sizes(const gert::TilingContext *context)
      : rows(Dim(context, kIds, 0)), queries(Dim(context, kIds, 1)), top_k(Dim(context, kIds, 2)),
        entries(queries * top_k), lanes(Dim(context, kIdAt, 0)), places(Dim(context, kIdAt, 1)),
        page(*context->GetAttrs()->GetAttrPointer<int64_t>(0)),
        first_row(*context->GetAttrs()->GetAttrPointer<int64_t>(1)),
        across(*context->GetAttrs()->GetAttrPointer<bool>(2)) {}
};

ge::graphStatus Check(const gert::TilingContext *context, const Sizes &size) {
  TIERKV_CHECKED(CheckEntries(context, kIds, "ids"));
  TIERKV_CHECKED(CheckBatch(context, kLanes, size.rows, size.page));
  TIERKV_REQUIRE(HasShape(context, kIdAt, {size.lanes, size.places}) && size.lanes >= 1 && size.places >= size.entries,
                 context, "id_at", "must be [lanes, at least %ld]", size.entries);
  TIERKV_REQUIRE(size.places <= kMaxEntries, context, "id_at", "must have at most %d places a lane, got %ld",
                 kMaxEntries, size.places);
  TIERKV_REQUIRE(HasShape(context, kRowOf, {size.lanes}), context, "row_of", "must be [%ld]", size.lanes);
  TIERKV_REQUIRE(HasShape(context, kCounters, {kCounterCount}), context, "counters", "must be [%d]", kCounterCount);
  TIERKV_REQUIRE(size.first_row >= 0 && size.first_row <= kMaxRows - size.rows, context, "first_row",
                 "must not be negative, got %ld", size.first_row);
  return ge::GRAPH_SUCCESS;
}

// Two tiles of the block table lie where a query is judged afterwards.
int64_t TileBytes(int64_t stride) { return std::max(kLeastTile, RoundUp(DivideUp(kJudgeBytes * stride, 2), 32)); }

ge::graphStatus Tile(gert::TilingContext *context) {
  const Sizes size(context);
  TIERKV_CHECKED(Check(context, size));
  const Cores device(context);
  const int64_t parts = UniqueParts(size.rows, size.entries, device.count);
  const int64_t cores = std::min(device.count, size.rows * std::max(size.queries, 1 + parts));
  const int64_t units = size.rows * size.queries, stride = RoundUp(size.top_k, kCompareUnit);
  const int64_t found = RoundUp(size.rows * size.entries * 4, 512);

  GatherSelectionPlanTilingData data;
  data.set_rows(size.rows);
  data.set_queries(size.queries);
  data.set_topK(size.top_k);
  data.set_lanes(size.lanes);
  data.set_places(size.places);
  data.set_firstRow(static_cast<int32_t>(size.first_row));
  data.set_across(size.across);
  data.set_pages(Dim(context, kLanes + 4, 1));
  data.set_pageBits(BitsOf(size.page));
  data.set_board(found);
  data.set_queryEach(units / cores);
  data.set_queryMore(units % cores);
  data.set_stride(stride);
  data.set_tileBytes(TileBytes(stride));
  SplitUniques(data, size.rows, size.entries, parts, cores);
  Launch(context, data, cores, true, found + cores * kTallyBytes);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(GatherSelectionPlan).Tiling(Tile);

}  // namespace
}  // namespace optiling
