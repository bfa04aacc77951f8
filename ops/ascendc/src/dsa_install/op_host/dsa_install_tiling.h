#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(DsaInstallTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);     // of the batch
TILING_DATA_FIELD_DEF(uint32_t, entries);  // of a row
TILING_DATA_FIELD_DEF(uint32_t, slots);    // of a lane
TILING_DATA_FIELD_DEF(uint32_t, rowBytes);
TILING_DATA_FIELD_DEF(uint32_t, batchRows);  // even: the kernel reads its lists two by two
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(DsaInstall, DsaInstallTilingData)

}  // namespace optiling
