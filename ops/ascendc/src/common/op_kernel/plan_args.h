// What the two halves of planning share.
#pragma once

#include "judge.h"

namespace tierkv {

struct PlanArgs {
  __gm__ int32_t *ids;
  BatchArgs batch;
  __gm__ int32_t *block_table;
  __gm__ uint8_t *slot_of;
  __gm__ int32_t *out_ids;
  __gm__ int8_t *kind;
  __gm__ int32_t *index, *length, *miss_id, *miss_from, *miss_count;
  __gm__ int64_t *counters;
  __gm__ int32_t *found;  // workspace [B, Q, K]: the ids that are hits, -1 elsewhere
  __gm__ int32_t *board;  // of Tally
};

// In the order of the counters.
struct PlanCounts {
  int32_t steps, hits, misses, window, future, unmapped, unique_hits, unique_misses, fetched;
};

}  // namespace tierkv
