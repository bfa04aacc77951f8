// What the steps of planning a gather share.
#pragma once

#include "plan_args.h"

namespace tierkv {

struct GatherPlanArgs {
  PlanArgs plan;  // without slot_of
  __gm__ int32_t *id_at, *row_of, *source, *work, *work_count;
};

// The buffer row that a batch row's hits lie in.
struct GatherSource {
  int32_t row;
  bool near, elsewhere;  // whether there may be hits; whether all of them move

  template <typename Tiling>
  __aicore__ inline GatherSource(const GatherPlanArgs &args, const Tiling &tiling, uint32_t at) {
    const int32_t own = tiling.firstRow + static_cast<int32_t>(at), lane = ReadGm(args.plan.batch.lanes, at);
    const bool known = lane >= 0 && lane < static_cast<int32_t>(tiling.lanes);
    const int32_t lies = known ? ReadGm(args.row_of, static_cast<uint32_t>(lane)) : -1;
    const bool mine = lies >= tiling.firstRow && lies - tiling.firstRow < static_cast<int32_t>(tiling.rows);
    near = lies >= 0 && (tiling.across != 0 || mine);
    row = near ? lies : own;
    elsewhere = row != own;
  }
};

}  // namespace tierkv
