// Small kernels, each with one fault that `bad` plants.
#include "planted.h"

#include "planted_cores.h"
#include "planted_memory.h"
#include "planted_order.h"
#include "planted_values.h"

extern "C" __global__ __aicore__ void planted(GM_ADDR x, GM_ADDR optional, GM_ADDR z, GM_ADDR y, GM_ADDR z_out,
                                              GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  Bench bench(x, y, z, workspace, data.bad);
  if (TILING_KEY_IS(0)) {
    RunOrder(bench, data.which);
  } else if (TILING_KEY_IS(1)) {
    data.which < 150 ? RunMemory(bench, data.which) : RunValues(bench, data.which);
  } else if (TILING_KEY_IS(2)) {
    RunCores(bench, data.which);
  }
}
