#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ExampleTilingData)
TILING_DATA_FIELD_DEF(uint64_t, elements)
TILING_DATA_FIELD_DEF(int32_t, add)
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(Example, ExampleTilingData)

}  // namespace optiling
