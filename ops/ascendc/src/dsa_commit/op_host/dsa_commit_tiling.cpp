#include "dsa_commit_tiling.h"

#include "tiling.h"

namespace optiling {
namespace {

using namespace tierkv;

// Visited is optional: inputs behind it are asked for by their place in the definition.
enum Input : size_t {
  kLanes, kKind, kIndex, kMissId, kMissFrom, kMissCount, kSlotOf, kIdAt, kHand, kVisited, kCounters
};
enum Policy : int64_t { kSetFifo, kClock };

constexpr int64_t kMostParts = 16;
constexpr int64_t kMostChunk = 2048, kLeastChunk = 512, kChunkUnit = 256;
constexpr int64_t kMergeBytes = 64 << 10;

struct Commit {
  int64_t rows, entries, slots, sets, ways, policy, hashing;

  explicit Commit(const gert::TilingContext *context)
      : rows(Dim(context, kKind, 0)),
        entries(Dim(context, kKind, 1) * Dim(context, kKind, 2)),
        slots(Dim(context, kIdAt, 1)),
        sets(Dim(context, kHand, 1)),
        ways(sets > 0 ? slots / sets : 0),
        policy(*context->GetAttrs()->GetAttrPointer<int64_t>(0)),
        hashing(*context->GetAttrs()->GetAttrPointer<int64_t>(1)) {}

  // Bytes that CommitPlace and its policy take.
  int64_t Ub(int64_t parts, int64_t chunk) const {
    const int64_t most = DivideUp(sets, parts), held = most * ways;
    int64_t bytes = 2 * RoundUp((held + 8) * 4, 32) + RoundUp(entries, chunk) * 2 + 10 * chunk * 4;
    bytes += RoundUp(chunk / 8, 32) + (8 << 10) + RoundUp(most * 4, 32);
    if (policy == kClock) {
      const int64_t marks = RoundUp(held, 256);
      bytes += 2 * RoundUp(most * 8, 32) + marks * 2 + marks / 8 + (2 * 5 + 2 + 3 * 4) * chunk + 2 * chunk / 8;
    }
    return bytes + kTallyBytes + kScratchBytes;
  }
};

ge::graphStatus CheckPlan(const gert::TilingContext *context, const Commit &commit) {
  TIERKV_CHECKED(CheckEntries(context, kKind, "kind"));
  const int64_t rows = commit.rows, entries = commit.entries;
  TIERKV_REQUIRE(HasShape(context, kLanes, {rows}), context, "lanes", "must be [%ld]", rows);
  TIERKV_REQUIRE(HasShape(context, kIndex, {rows, Dim(context, kKind, 1), Dim(context, kKind, 2)}), context, "index",
                 "must have the shape of kind");
  TIERKV_REQUIRE(HasShape(context, kMissId, {rows, entries}), context, "miss_id", "must be [%ld, %ld]", rows, entries);
  TIERKV_REQUIRE(HasShape(context, kMissFrom, {rows, entries}), context, "miss_from", "must be [%ld, %ld]", rows,
                 entries);
  TIERKV_REQUIRE(HasShape(context, kMissCount, {rows}), context, "miss_count", "must be [%ld]", rows);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus CheckTables(const gert::TilingContext *context, const Commit &commit) {
  const int64_t lanes = Dim(context, kSlotOf, 0), positions = Dim(context, kSlotOf, 1);
  TIERKV_REQUIRE(HasShape(context, kSlotOf, {lanes, positions}) && lanes >= 1, context, "slot_of",
                 "must be [lanes, positions], at least one lane");
  TIERKV_REQUIRE(positions >= 1 && positions <= kMaxPositions, context, "slot_of",
                 "must have 1 to %d positions, got %ld", kMaxPositions, positions);
  TIERKV_REQUIRE(HasShape(context, kIdAt, {lanes, commit.slots}), context, "id_at", "must be [%ld, slots]", lanes);
  TIERKV_REQUIRE(commit.slots >= 1 && commit.slots <= kMaxSlots, context, "id_at", "must have 1 to %d slots, got %ld",
                 kMaxSlots, commit.slots);
  TIERKV_REQUIRE(HasShape(context, kHand, {lanes, commit.sets}), context, "hand", "must be [%ld, sets]", lanes);
  TIERKV_REQUIRE(commit.ways >= 1, context, "hand", "must have 1 to %ld sets, got %ld", commit.slots, commit.sets);
  TIERKV_REQUIRE(commit.hashing == 0 || commit.hashing == 1, context, "hashing", "must be 0 or 1, got %ld",
                 commit.hashing);
  TIERKV_REQUIRE(commit.policy == kSetFifo || commit.policy == kClock, context, "policy", "must be 0 or 1, got %ld",
                 commit.policy);
  const gert::StorageShape *visited = context->GetOptionalInputShape(kVisited);
  TIERKV_REQUIRE((visited != nullptr) == (commit.policy == kClock), context, "visited",
                 "must be given for policy 1, and only for it");
  if (visited != nullptr) {
    const gert::Shape want{lanes, commit.sets, 1};
    TIERKV_REQUIRE(visited->GetStorageShape() == want, context, "visited", "must be [%ld, %ld, 1]", lanes, commit.sets);
    TIERKV_REQUIRE(commit.ways <= kMaxWays, context, "hand", "must have sets of at most %d ways, got %ld", kMaxWays,
                   commit.ways);
  }
  const gert::Shape &counters = context->GetRequiredInputShape(kCounters)->GetStorageShape();
  TIERKV_REQUIRE(counters.GetDimNum() == 1 && counters.GetDim(0) > kCounterSuperseded, context, "counters",
                 "must be [n], n at least %d", kCounterSuperseded + 1);
  return ge::GRAPH_SUCCESS;
}

// As many parts as keep the cores busy; more if their tables would not fit into UB otherwise.
void Split(const Commit &commit, const Cores &device, DsaCommitTilingData &data) {
  const int64_t free = static_cast<int64_t>(device.ub), most = std::min(kMostParts, commit.sets);
  int64_t parts = std::clamp<int64_t>(device.count / commit.rows, 1, most);
  while (parts < most && commit.Ub(parts, kLeastChunk) > free) ++parts;
  int64_t chunk = std::min(kMostChunk, RoundUp(commit.entries, kChunkUnit));
  while (chunk > kChunkUnit && commit.Ub(parts, chunk) > free) chunk -= kChunkUnit;
  data.set_parts(parts);
  data.set_mostSets(DivideUp(commit.sets, parts));
  data.set_chunk(chunk);
  data.set_mergeChunk(std::min(RoundUp(commit.entries, kChunkUnit), kMergeBytes / 4 / parts / kChunkUnit * kChunkUnit));
}

ge::graphStatus Tile(gert::TilingContext *context) {
  const Commit commit(context);
  TIERKV_CHECKED(CheckPlan(context, commit));
  TIERKV_CHECKED(CheckTables(context, commit));
  const Cores device(context);
  DsaCommitTilingData data;
  Split(commit, device, data);
  const int64_t units = commit.rows * data.get_parts(), cores = std::min(device.count, units);
  const int64_t stride = RoundUp(commit.entries, 8), taken = RoundUp(units * stride * 4, 512);
  data.set_entries(commit.entries);
  data.set_lanes(Dim(context, kSlotOf, 0));
  data.set_positions(Dim(context, kSlotOf, 1));
  data.set_slotBytes(ge::GetSizeByDataType(TypeOf(context, kSlotOf)));
  data.set_slots(commit.slots);
  data.set_sets(commit.sets);
  data.set_ways(commit.ways);
  data.set_hashing(commit.hashing);
  data.set_unitEach(units / cores);
  data.set_unitMore(units % cores);
  data.set_rowEach(commit.rows / cores);
  data.set_rowMore(commit.rows % cores);
  data.set_takenStride(stride);
  data.set_board(taken);
  context->SetTilingKey(commit.policy);
  Launch(context, data, cores, true, taken + cores * kTallyBytes);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(DsaCommit).Tiling(Tile);

}  // namespace
}  // namespace optiling
