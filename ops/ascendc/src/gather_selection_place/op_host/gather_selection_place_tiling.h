#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(GatherSelectionPlaceTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF(uint32_t, entries);  // of a row of the batch
TILING_DATA_FIELD_DEF(uint32_t, places);   // of a lane
TILING_DATA_FIELD_DEF(uint32_t, lanes);
TILING_DATA_FIELD_DEF(int32_t, firstRow);
TILING_DATA_FIELD_DEF(uint32_t, rowEach);  // rows a core, one more in the first `rowMore` cores
TILING_DATA_FIELD_DEF(uint32_t, rowMore);
TILING_DATA_FIELD_DEF(uint32_t, laneEach);
TILING_DATA_FIELD_DEF(uint32_t, laneMore);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(GatherSelectionPlace, GatherSelectionPlaceTilingData)

}  // namespace optiling
