#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(DsaPlanTilingData)
TILING_DATA_FIELD_DEF(uint32_t, queries);    // of a row
TILING_DATA_FIELD_DEF(uint32_t, topK);
TILING_DATA_FIELD_DEF(uint32_t, entries);    // of a row
TILING_DATA_FIELD_DEF(uint32_t, lanes);
TILING_DATA_FIELD_DEF(uint32_t, positions);  // of slot_of
TILING_DATA_FIELD_DEF(uint32_t, pages);      // of a row of block_table
TILING_DATA_FIELD_DEF(uint32_t, pageBits);
TILING_DATA_FIELD_DEF(uint32_t, queryEach);  // queries a core judges, one more in the first `queryMore` cores
TILING_DATA_FIELD_DEF(uint32_t, queryMore);
TILING_DATA_FIELD_DEF(uint32_t, batch);      // queries that search a row's tables together
TILING_DATA_FIELD_DEF(uint32_t, stride);     // entries from query to query in UB
TILING_DATA_FIELD_DEF(uint32_t, tileBytes);
TILING_DATA_FIELD_DEF(uint32_t, unitEach);   // units of the second half, likewise
TILING_DATA_FIELD_DEF(uint32_t, unitMore);
TILING_DATA_FIELD_DEF(uint32_t, parts);      // units for a row's hits; one more for its misses
TILING_DATA_FIELD_DEF(uint32_t, hashes);     // what the parts share: the bits of a product from `hitShift` on
TILING_DATA_FIELD_DEF(uint32_t, hitShift);
TILING_DATA_FIELD_DEF(uint32_t, missShift);
TILING_DATA_FIELD_DEF(uint32_t, table);      // places of FirstPlaces
TILING_DATA_FIELD_DEF(uint32_t, chunk);      // entries
TILING_DATA_FIELD_DEF(uint32_t, chunks);     // of a row
TILING_DATA_FIELD_DEF(uint64_t, board);      // bytes of workspace before it
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(DsaPlan, DsaPlanTilingData)

}  // namespace optiling
