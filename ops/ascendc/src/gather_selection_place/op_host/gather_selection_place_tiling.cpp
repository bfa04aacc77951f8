#include "gather_selection_place_tiling.h"

#include "tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

enum Input : size_t { kLanes, kIds, kKind, kMissFrom, kIdAt, kRowOf, kCounters };

struct Sizes {
  int64_t rows, queries, top_k, entries, lanes, places, first_row;

  explicit Sizes(const gert::TilingContext *context)
      : rows(Dim(context, kIds, 0)), queries(Dim(context, kIds, 1)), top_k(Dim(context, kIds, 2)),
        entries(queries * top_k), lanes(Dim(context, kIdAt, 0)), places(Dim(context, kIdAt, 1)),
        first_row(*context->GetAttrs()->GetAttrPointer<int64_t>(0)) {}
};

ge::graphStatus Check(const gert::TilingContext *context, const Sizes &size) {
  TIERKV_REQUIRE(HasShape(context, kLanes, {size.rows}), context, "lanes", "must be [%ld]", size.rows);
  TIERKV_REQUIRE(HasShape(context, kKind, {size.rows, size.queries, size.top_k}), context, "kind",
                 "must be [%ld, %ld, %ld]", size.rows, size.queries, size.top_k);
  TIERKV_REQUIRE(HasShape(context, kMissFrom, {size.rows, size.entries}), context, "miss_from", "must be [%ld, %ld]",
                 size.rows, size.entries);
  TIERKV_REQUIRE(HasShape(context, kIdAt, {size.lanes, size.places}) && size.places >= size.entries, context, "id_at",
                 "must be [lanes, at least %ld]", size.entries);
  TIERKV_REQUIRE(size.places <= kMaxEntries, context, "id_at", "must have at most %d places a lane, got %ld",
                 kMaxEntries, size.places);
  TIERKV_REQUIRE(HasShape(context, kRowOf, {size.lanes}), context, "row_of", "must be [%ld]", size.lanes);
  TIERKV_REQUIRE(HasShape(context, kCounters, {kCounterCount}), context, "counters", "must be [%d]", kCounterCount);
  TIERKV_REQUIRE(size.first_row >= 0 && size.first_row <= kMaxRows - size.rows, context, "first_row",
                 "must not be negative, got %ld", size.first_row);
  return ge::GRAPH_SUCCESS;
}

// What the kernel takes: of a row ids, misses, slots, kinds twice and a bit each; nothing for a lane;
// lanes, their rows, counts and counters.
int64_t UbBytes(const Sizes &size) {
  const int64_t entries = RoundUp(size.entries, 128), tables = size.lanes + 2 * size.rows + 2 * kCounterCount;
  return entries * (3 * 4 + 1 + 2) + entries / 8 + RoundUp(size.places, 128) * 4 + 4 * (tables + 4 * 8);
}

ge::graphStatus Tile(gert::TilingContext *context) {
  TIERKV_CHECKED(CheckEntries(context, kIds, "ids"));
  const Sizes size(context);
  TIERKV_CHECKED(Check(context, size));
  const Cores cores(context);
  const int64_t blocks = Shares(std::max(size.rows, size.lanes), cores.count).cores;
  TIERKV_REQUIRE(UbBytes(size) + kScratchBytes <= static_cast<int64_t>(cores.ub), context, "row_of",
                 "%ld lanes and %ld rows are too many", size.lanes, size.rows);

  GatherSelectionPlaceTilingData data;
  data.set_rows(size.rows);
  data.set_entries(size.entries);
  data.set_places(size.places);
  data.set_lanes(size.lanes);
  data.set_firstRow(static_cast<int32_t>(size.first_row));
  data.set_rowEach(size.rows / blocks);
  data.set_rowMore(size.rows % blocks);
  data.set_laneEach(size.lanes / blocks);
  data.set_laneMore(size.lanes % blocks);
  Launch(context, data, blocks, true);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(GatherSelectionPlace).Tiling(Tile);

}  // namespace
}  // namespace optiling
