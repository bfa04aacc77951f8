#include "dsa_append.h"

extern "C" __global__ __aicore__ void dsa_append(GM_ADDR part, GM_ADDR rows, GM_ADDR fresh, GM_ADDR backing,
                                                 GM_ADDR fresh_out, GM_ADDR backing_out, GM_ADDR workspace,
                                                 GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(data, tiling);
  AscendC::TPipe pipe;
  const tierkv::AppendArgs args{part, fresh_out, backing_out, reinterpret_cast<__gm__ int32_t *>(rows)};
  tierkv::Append<decltype(data)>(args, data).Process(&pipe);
}
