#include "dsa_install_tiling.h"

#include "row_tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

enum Input : size_t { kLanes, kMissFrom, kMissCount, kSlot, kSelection, kPool };

ge::graphStatus Check(const gert::TilingContext *context) {
  const int64_t rows = Dim(context, kSelection, 0), queries = Dim(context, kSelection, 1);
  const int64_t top_k = Dim(context, kSelection, 2), entries = queries * top_k, width = RowBytes(context, kSelection);
  TIERKV_REQUIRE(ShapeOf(context, kSelection).GetDimNum() == 4 && rows > 0, context, "selection",
                 "must be [B, Q, K, row], B at least 1");
  TIERKV_REQUIRE(queries >= 1 && top_k >= 1 && entries <= kMaxEntries, context, "selection",
                 "must have 1 to %d entries a row, got %ld", kMaxEntries, entries);
  TIERKV_REQUIRE(width >= 1 && width <= kMaxRowBytes, context, "selection", "rows must have 1 to %d bytes, got %ld",
                 kMaxRowBytes, width);
  TIERKV_REQUIRE(HasShape(context, kLanes, {rows}), context, "lanes", "must be [%ld]", rows);
  TIERKV_REQUIRE(HasShape(context, kMissCount, {rows}), context, "miss_count", "must be [%ld]", rows);
  TIERKV_REQUIRE(HasShape(context, kMissFrom, {rows, entries}), context, "miss_from", "must be [%ld, %ld]", rows,
                 entries);
  TIERKV_REQUIRE(HasShape(context, kSlot, {rows, entries}), context, "slot", "must be [%ld, %ld]", rows, entries);
  const int64_t slots = Dim(context, kPool, 1);
  TIERKV_REQUIRE(HasShape(context, kPool, {Dim(context, kPool, 0), slots, Dim(context, kSelection, 3)}), context,
                 "pool", "must be [lanes, P, %ld], rows like selection's", Dim(context, kSelection, 3));
  TIERKV_REQUIRE(slots >= 1 && slots <= kMaxSlots, context, "pool", "must have 1 to %d slots a lane, got %ld",
                 kMaxSlots, slots);
  return ge::GRAPH_SUCCESS;
}

// The work is known on the device only: the cores share it there.
ge::graphStatus Tile(gert::TilingContext *context) {
  TIERKV_CHECKED(Check(context));
  const int64_t rows = Dim(context, kSelection, 0), entries = Dim(context, kSlot, 1);
  const int64_t width = RowBytes(context, kSelection);
  DsaInstallTilingData data;
  data.set_rows(rows);
  data.set_entries(entries);
  data.set_slots(Dim(context, kPool, 1));
  data.set_rowBytes(width);
  data.set_batchRows(RowBatch(width).rows / 2 * 2);
  Launch(context, data, Shares(rows * entries, Cores(context).count).cores, false);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(DsaInstall).Tiling(Tile);

}  // namespace
}  // namespace optiling
