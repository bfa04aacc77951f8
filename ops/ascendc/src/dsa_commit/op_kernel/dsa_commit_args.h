// What the halves of placement share.
#pragma once

#include "kernel_operator.h"

namespace tierkv {

struct CommitArgs {
  __gm__ int32_t *lanes;
  __gm__ int8_t *kind;
  __gm__ int32_t *index, *miss_id, *miss_count;
  __gm__ uint8_t *slot_of;
  __gm__ int32_t *id_at, *hand;
  __gm__ int64_t *visited;
  __gm__ int32_t *slot, *count;
  __gm__ int64_t *counters;
  __gm__ int32_t *taken;  // workspace [B, parts, M]: slots that a part gave, -1 elsewhere
  __gm__ int32_t *board;  // of Tally
};

// In the order of the counters.
struct CommitCounts {
  int32_t installs, superseded;
};

// The sets of a lane that one unit has, and their slots.
struct CommitPart {
  uint32_t lane, set, sets;  // first, number
  int32_t slot;              // first
  uint32_t slots;
};

}  // namespace tierkv
