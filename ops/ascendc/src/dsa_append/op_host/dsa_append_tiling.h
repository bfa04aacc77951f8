#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(DsaAppendTilingData)
TILING_DATA_FIELD_DEF(uint32_t, each);           // rows a core, one more in the first `more` cores
TILING_DATA_FIELD_DEF(uint32_t, more);
TILING_DATA_FIELD_DEF(uint32_t, width);          // bytes of a row
TILING_DATA_FIELD_DEF(uint32_t, batchRows);
TILING_DATA_FIELD_DEF(uint64_t, partStride);     // bytes from row to row
TILING_DATA_FIELD_DEF(uint64_t, freshStride);    // 0: rows are not kept
TILING_DATA_FIELD_DEF(uint64_t, backingStride);  // 0: rows are not written
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(DsaAppend, DsaAppendTilingData)

}  // namespace optiling
