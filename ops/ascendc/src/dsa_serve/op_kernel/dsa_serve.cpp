#include "dsa_serve.h"

extern "C" __global__ __aicore__ void dsa_serve(GM_ADDR lanes, GM_ADDR kind, GM_ADDR index, GM_ADDR fresh,
                                                GM_ADDR pool, GM_ADDR backing, GM_ADDR out, GM_ADDR workspace,
                                                GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  AscendC::TPipe pipe;
  const tierkv::ServeArgs args{reinterpret_cast<__gm__ int32_t *>(lanes),
                               reinterpret_cast<__gm__ int32_t *>(index),
                               reinterpret_cast<__gm__ int8_t *>(kind),
                               fresh, pool, backing, out};
  tierkv::Serve<decltype(data)>(args, data).Process(&pipe);
}
