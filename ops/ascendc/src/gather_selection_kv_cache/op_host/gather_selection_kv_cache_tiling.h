#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(GatherSelectionKvCacheTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);  // of the batch
TILING_DATA_FIELD_DEF(uint32_t, queries);
TILING_DATA_FIELD_DEF(uint32_t, topK);
TILING_DATA_FIELD_DEF(uint32_t, firstRow);
TILING_DATA_FIELD_DEF(uint32_t, bufferQueries);
TILING_DATA_FIELD_DEF(uint32_t, rowBytes);
TILING_DATA_FIELD_DEF(uint32_t, batchRows);
TILING_DATA_FIELD_DEF(uint32_t, eraserBytes);
TILING_DATA_FIELD_DEF(uint32_t, mostRows);  // that a core works on
TILING_DATA_FIELD_DEF(uint32_t, slice);     // places of each row whose records leave it together,
TILING_DATA_FIELD_DEF(uint32_t, sliceEach); // and a core's part of all rows' slices
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(GatherSelectionKvCache, GatherSelectionKvCacheTilingData)

}  // namespace optiling
