#include "dsa_install.h"

extern "C" __global__ __aicore__ void dsa_install(GM_ADDR lanes, GM_ADDR miss_from, GM_ADDR miss_count, GM_ADDR slot,
                                                  GM_ADDR selection, GM_ADDR pool, GM_ADDR pool_out,
                                                  GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(data, tiling);
  AscendC::TPipe pipe;
  const tierkv::InstallArgs args{reinterpret_cast<__gm__ int32_t *>(lanes),
                                 reinterpret_cast<__gm__ int32_t *>(miss_from),
                                 reinterpret_cast<__gm__ int32_t *>(miss_count),
                                 reinterpret_cast<__gm__ int32_t *>(slot),
                                 selection, pool_out};
  tierkv::Install<decltype(data)>(args, data).Process(&pipe);
}
