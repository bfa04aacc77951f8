#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(PlantedTilingData)
TILING_DATA_FIELD_DEF(int32_t, which)
TILING_DATA_FIELD_DEF(int32_t, bad)
TILING_DATA_FIELD_DEF_ARR(uint16_t, 3, unused)
TILING_DATA_FIELD_DEF(int64_t, wide)
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(Planted, PlantedTilingData)

}  // namespace optiling
