#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ScriptTilingData)
TILING_DATA_FIELD_DEF(uint32_t, steps);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(Script, ScriptTilingData)

}  // namespace optiling
