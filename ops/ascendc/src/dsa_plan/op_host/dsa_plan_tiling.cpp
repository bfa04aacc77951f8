#include "dsa_plan_tiling.h"

#include "plan_tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

enum Input : size_t { kIds, kLanes, kKvLen, kQLen, kStable, kBlockTable, kSlotOf, kCounters };

constexpr int64_t kCompareUnit = 64;        // int32 that a compare takes
constexpr int64_t kMostBatchEntries = 4096;
constexpr int64_t kMostTileBytes = 64 << 10;

struct Plan {
  int64_t rows, queries, top_k, page;

  explicit Plan(const gert::TilingContext *context)
      : rows(Dim(context, kIds, 0)),
        queries(Dim(context, kIds, 1)),
        top_k(Dim(context, kIds, 2)),
        page(*context->GetAttrs()->GetAttrPointer<int64_t>(0)) {}

  int64_t Entries() const { return queries * top_k; }
  int64_t Stride() const { return RoundUp(top_k, kCompareUnit); }
};

ge::graphStatus Check(const gert::TilingContext *context, const Plan &plan) {
  TIERKV_CHECKED(CheckEntries(context, kIds, "ids"));
  TIERKV_CHECKED(CheckBatch(context, kLanes, plan.rows, plan.page));
  const int64_t lanes = Dim(context, kSlotOf, 0), positions = Dim(context, kSlotOf, 1);
  TIERKV_REQUIRE(HasShape(context, kSlotOf, {lanes, positions}) && lanes >= 1, context, "slot_of",
                 "must be [lanes, positions], at least one lane");
  TIERKV_REQUIRE(positions >= 1 && positions <= kMaxPositions, context, "slot_of",
                 "must have 1 to %d positions, got %ld", kMaxPositions, positions);
  TIERKV_REQUIRE(ShapeOf(context, kCounters).GetDimNum() == 1 && Dim(context, kCounters, 0) > kCounterFetched, context,
                 "counters", "must be [n], n at least %d", kCounterFetched + 1);
  return ge::GRAPH_SUCCESS;
}

// Queries over cores; those of one row that a core gets share what they read, as far as UB goes.
void SplitQueries(const Plan &plan, const Cores &device, int64_t cores, DsaPlanTilingData &data) {
  const int64_t units = plan.rows * plan.queries, stride = plan.Stride();
  const int64_t most = std::min(plan.queries, DivideUp(units, cores));
  const int64_t batch = std::clamp<int64_t>(kMostBatchEntries / stride, 1, most);
  // Of PlanSearch and EntryJudge, without tiles.
  const int64_t used = 5 * batch * stride * 4 + 9 * stride + 8 * RoundUp(stride / 8, 32) + RoundUp(batch * 4, 32);
  const int64_t left = static_cast<int64_t>(device.ub) - kScratchBytes - used;
  data.set_queryEach(units / cores);
  data.set_queryMore(units % cores);
  data.set_batch(batch);
  data.set_stride(stride);
  data.set_tileBytes(std::min(kMostTileBytes, left / 2 / 32 * 32));
}

ge::graphStatus Tile(gert::TilingContext *context) {
  const Plan plan(context);
  TIERKV_CHECKED(Check(context, plan));
  const Cores device(context);
  const int64_t parts = UniqueParts(plan.rows, plan.Entries(), device.count);
  const int64_t cores = std::min(device.count, plan.rows * std::max(plan.queries, 1 + parts));
  const int64_t found = RoundUp(plan.rows * plan.Entries() * 4, 512);

  DsaPlanTilingData data;
  data.set_queries(plan.queries);
  data.set_topK(plan.top_k);
  data.set_lanes(Dim(context, kSlotOf, 0));
  data.set_positions(Dim(context, kSlotOf, 1));
  data.set_pages(Dim(context, kBlockTable, 1));
  data.set_pageBits(BitsOf(plan.page));
  data.set_board(found);
  SplitQueries(plan, device, cores, data);
  SplitUniques(data, plan.rows, plan.Entries(), parts, cores);
  context->SetTilingKey(ge::GetSizeByDataType(TypeOf(context, kSlotOf)));
  Launch(context, data, cores, true, found + cores * kTallyBytes);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(DsaPlan).Tiling(Tile);

}  // namespace
}  // namespace optiling
