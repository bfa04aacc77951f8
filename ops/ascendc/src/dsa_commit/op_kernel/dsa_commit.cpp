#include "dsa_commit_clock.h"
#include "dsa_commit_merge.h"
#include "dsa_commit_place.h"
#include "dsa_commit_set_fifo.h"
#include "tally.h"

namespace tierkv {

template <typename Policy, typename Tiling>
__aicore__ inline void Commit(const CommitArgs &args, const Tiling &tiling) {
  AscendC::TPipe pipe;
  CommitCounts n{};
  const Tally tally(args.board);
  CommitPlace<Policy, Tiling>(args, tiling, n).Process(&pipe);
  const int32_t counts[] = {n.installs, n.superseded};
  tally.Put(&pipe, counts);
  AscendC::SyncAll<true>();
  pipe.Reset();
  CommitMerge<Tiling>(args, tiling).Process(&pipe);
  // The last core has no row to merge if any core has none.
  if (AscendC::GetBlockIdx() == AscendC::GetBlockNum() - 1) {
    static_assert(kCounterSuperseded == kCounterInstalls + 1, "CommitCounts has their order");
    tally.AddTo(&pipe, args.counters + kCounterInstalls, 2);
  }
}

}  // namespace tierkv

extern "C" __global__ __aicore__ void dsa_commit(GM_ADDR lanes, GM_ADDR kind, GM_ADDR index, GM_ADDR miss_id,
                                                 GM_ADDR miss_from, GM_ADDR miss_count, GM_ADDR slot_of, GM_ADDR id_at,
                                                 GM_ADDR hand, GM_ADDR visited, GM_ADDR counters, GM_ADDR slot_of_out,
                                                 GM_ADDR id_at_out, GM_ADDR hand_out, GM_ADDR visited_out,
                                                 GM_ADDR counters_out, GM_ADDR slot, GM_ADDR count, GM_ADDR workspace,
                                                 GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  using Tiling = decltype(data);
  GM_ADDR shared = AscendC::GetUserWorkspace(workspace);
  using tierkv::AsInts;
  tierkv::CommitArgs args{};
  args.lanes = AsInts(lanes), args.kind = reinterpret_cast<__gm__ int8_t *>(kind), args.index = AsInts(index);
  args.miss_id = AsInts(miss_id), args.miss_count = AsInts(miss_count), args.slot_of = slot_of_out;
  args.id_at = AsInts(id_at_out), args.hand = AsInts(hand_out);
  args.visited = reinterpret_cast<__gm__ int64_t *>(visited_out);
  args.slot = AsInts(slot), args.count = AsInts(count);
  args.counters = reinterpret_cast<__gm__ int64_t *>(counters_out);
  args.taken = AsInts(shared), args.board = AsInts(shared + data.board);
  if (TILING_KEY_IS(0)) {
    tierkv::Commit<tierkv::CommitSetFifo<Tiling>>(args, data);
  } else if (TILING_KEY_IS(1)) {
    tierkv::Commit<tierkv::CommitClock<Tiling>>(args, data);
  }
}
