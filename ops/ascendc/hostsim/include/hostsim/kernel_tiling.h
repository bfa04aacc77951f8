// The kernel's side of the tiling data.
#pragma once

#include <cstring>

#include "hostsim/enums.h"
#include "hostsim/runtime.h"

// The tiling data is a plain struct here; op_host/<op>_tiling.h declares it through
// register/tilingdata_base.h.
#define GET_TILING_DATA_WITH_STRUCT(type, data, tiling) \
  type data;                                            \
  std::memcpy(&data, tiling, sizeof data)
#define GET_TILING_DATA(data, tiling) GET_TILING_DATA_WITH_STRUCT(HOSTSIM_TILING, data, tiling)
#define TILING_KEY_IS(key) (::hostsim::TilingKey() == (key))
#define KERNEL_TASK_TYPE_DEFAULT(type) ::hostsim::SetKernelType(type)
#define KERNEL_TASK_TYPE(key, type) \
  if (TILING_KEY_IS(key)) ::hostsim::SetKernelType(type)

namespace AscendC {

// The user's part of the workspace lies behind the system's, which tiling has added.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace + hostsim::kSystemWorkspace; }

}  // namespace AscendC
