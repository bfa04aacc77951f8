#include "gather_selection_search.h"
#include "gather_selection_work.h"
#include "plan_unique.h"
#include "tally.h"

namespace tierkv {

template <typename Tiling>
__aicore__ inline void PlanGather(const GatherPlanArgs &args, const Tiling &tiling) {
  const bool first = AscendC::GetBlockIdx() == 0;
  AscendC::TPipe pipe;
  PlanCounts n{};
  n.steps = first ? 1 : 0;
  const int32_t moved = GatherSearch<Tiling>(args, tiling, n).Process(&pipe);
  // A row's misses are among all its queries, which several cores have judged.
  AscendC::SyncAll<true>();
  pipe.Reset();
  PlanUnique<Tiling>(args.plan, tiling, n).Process(&pipe);

  int32_t counts[kCounterCount] = {n.steps,    n.hits,        n.misses,        n.window, n.future,
                                   n.unmapped, n.unique_hits, n.unique_misses, n.fetched};
  counts[kCounterMoved] = moved;
  const Tally tally(args.plan.board);
  tally.Put(&pipe, counts);
  // Now it is known what repeats.
  AscendC::SyncAll<true>();
  pipe.Reset();
  GatherWork<Tiling>(args, tiling).Process(&pipe);
  if (first) tally.AddTo(&pipe, args.plan.counters, kCounterCount);
}

}  // namespace tierkv

extern "C" __global__ __aicore__ void gather_selection_plan(
    GM_ADDR ids, GM_ADDR lanes, GM_ADDR kv_len, GM_ADDR q_len, GM_ADDR stable, GM_ADDR block_table, GM_ADDR id_at,
    GM_ADDR row_of, GM_ADDR counters, GM_ADDR out_ids, GM_ADDR kind, GM_ADDR index, GM_ADDR length, GM_ADDR miss_id,
    GM_ADDR miss_from, GM_ADDR miss_count, GM_ADDR source, GM_ADDR work, GM_ADDR work_count, GM_ADDR counters_out,
    GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  const auto ints = [](GM_ADDR address) { return reinterpret_cast<__gm__ int32_t *>(address); };
  GM_ADDR shared = AscendC::GetUserWorkspace(workspace);
  tierkv::GatherPlanArgs args{};
  tierkv::PlanArgs &plan = args.plan;
  plan.ids = ints(ids), plan.batch = {ints(lanes), ints(kv_len), ints(q_len), ints(stable)};
  plan.block_table = ints(block_table);
  plan.out_ids = ints(out_ids), plan.kind = reinterpret_cast<__gm__ int8_t *>(kind), plan.index = ints(index);
  plan.length = ints(length), plan.miss_id = ints(miss_id), plan.miss_from = ints(miss_from);
  plan.miss_count = ints(miss_count), plan.counters = reinterpret_cast<__gm__ int64_t *>(counters_out);
  plan.found = ints(shared), plan.board = ints(shared + data.board);
  args.id_at = ints(id_at), args.row_of = ints(row_of);
  args.source = ints(source), args.work = ints(work), args.work_count = ints(work_count);
  tierkv::PlanGather(args, data);
}
