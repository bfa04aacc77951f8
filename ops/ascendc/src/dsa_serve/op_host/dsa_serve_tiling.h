#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(DsaServeTilingData)
TILING_DATA_FIELD_DEF(uint32_t, each);  // entries a core, one more in the first `more` cores
TILING_DATA_FIELD_DEF(uint32_t, more);
TILING_DATA_FIELD_DEF(uint32_t, queries);
TILING_DATA_FIELD_DEF(uint32_t, entries);  // of a row of the batch
TILING_DATA_FIELD_DEF(uint32_t, slots);    // of a lane
TILING_DATA_FIELD_DEF(uint32_t, rowBytes);
TILING_DATA_FIELD_DEF(uint32_t, batchRows);
TILING_DATA_FIELD_DEF(uint32_t, eraserBytes);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(DsaServe, DsaServeTilingData)

}  // namespace optiling
