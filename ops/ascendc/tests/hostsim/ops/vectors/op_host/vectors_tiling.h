#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(VectorsTilingData)
TILING_DATA_FIELD_DEF(int32_t, which)
TILING_DATA_FIELD_DEF(int32_t, option)
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(Vectors, VectorsTilingData)

}  // namespace optiling
