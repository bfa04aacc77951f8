#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(DsaCommitTilingData)
TILING_DATA_FIELD_DEF(uint32_t, entries);      // of a row
TILING_DATA_FIELD_DEF(uint32_t, lanes);
TILING_DATA_FIELD_DEF(uint32_t, positions);    // of slot_of
TILING_DATA_FIELD_DEF(uint32_t, slotBytes);    // of an entry of slot_of
TILING_DATA_FIELD_DEF(uint32_t, slots);        // of id_at
TILING_DATA_FIELD_DEF(uint32_t, sets);
TILING_DATA_FIELD_DEF(uint32_t, ways);
TILING_DATA_FIELD_DEF(uint32_t, hashing);
TILING_DATA_FIELD_DEF(uint32_t, parts);        // of a lane's sets; one of a row is a unit
TILING_DATA_FIELD_DEF(uint32_t, mostSets);     // of a part
TILING_DATA_FIELD_DEF(uint32_t, unitEach);     // units a core, one more in the first `unitMore` cores
TILING_DATA_FIELD_DEF(uint32_t, unitMore);
TILING_DATA_FIELD_DEF(uint32_t, rowEach);      // rows that a core merges, likewise
TILING_DATA_FIELD_DEF(uint32_t, rowMore);
TILING_DATA_FIELD_DEF(uint32_t, chunk);        // entries
TILING_DATA_FIELD_DEF(uint32_t, mergeChunk);   // likewise
TILING_DATA_FIELD_DEF(uint32_t, takenStride);  // entries from part to part in workspace
TILING_DATA_FIELD_DEF(uint64_t, board);        // bytes of workspace before it
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(DsaCommit, DsaCommitTilingData)

}  // namespace optiling
