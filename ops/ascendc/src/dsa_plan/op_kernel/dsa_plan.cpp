#include "dsa_plan_search.h"
#include "plan_unique.h"
#include "tally.h"

namespace tierkv {

template <typename Slot, typename Tiling>
__aicore__ inline void Plan(const PlanArgs &args, const Tiling &tiling) {
  const bool first = AscendC::GetBlockIdx() == 0;
  AscendC::TPipe pipe;
  PlanCounts n{};
  n.steps = first ? 1 : 0;
  PlanSearch<Slot, Tiling>(args, tiling, n).Process(&pipe);
  // A row's misses are among all its queries, which several cores have judged.
  AscendC::SyncAll<true>();
  pipe.Reset();
  PlanUnique<Tiling>(args, tiling, n).Process(&pipe);

  const Tally tally(args.board);
  const int32_t counts[] = {n.steps,    n.hits,        n.misses,        n.window, n.future,
                            n.unmapped, n.unique_hits, n.unique_misses, n.fetched};
  tally.Put(&pipe, counts);
  AscendC::SyncAll<true>();
  if (first) tally.AddTo(&pipe, args.counters, kCounterFetched + 1);
}

}  // namespace tierkv

extern "C" __global__ __aicore__ void dsa_plan(GM_ADDR ids, GM_ADDR lanes, GM_ADDR kv_len, GM_ADDR q_len,
                                               GM_ADDR stable, GM_ADDR block_table, GM_ADDR slot_of, GM_ADDR counters,
                                               GM_ADDR out_ids, GM_ADDR kind, GM_ADDR index, GM_ADDR length,
                                               GM_ADDR miss_id, GM_ADDR miss_from, GM_ADDR miss_count,
                                               GM_ADDR counters_out, GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  GM_ADDR shared = AscendC::GetUserWorkspace(workspace);
  using tierkv::AsInts;
  tierkv::PlanArgs args{};
  args.ids = AsInts(ids), args.batch = {AsInts(lanes), AsInts(kv_len), AsInts(q_len), AsInts(stable)};
  args.block_table = AsInts(block_table), args.slot_of = slot_of;
  args.out_ids = AsInts(out_ids), args.kind = reinterpret_cast<__gm__ int8_t *>(kind), args.index = AsInts(index);
  args.length = AsInts(length), args.miss_id = AsInts(miss_id), args.miss_from = AsInts(miss_from);
  args.miss_count = AsInts(miss_count), args.counters = reinterpret_cast<__gm__ int64_t *>(counters_out);
  args.found = AsInts(shared), args.board = AsInts(shared + data.board);
  if (TILING_KEY_IS(2)) {
    tierkv::Plan<int16_t>(args, data);
  } else if (TILING_KEY_IS(4)) {
    tierkv::Plan<int32_t>(args, data);
  }
}
