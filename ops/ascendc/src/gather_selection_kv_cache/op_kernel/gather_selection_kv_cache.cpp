#include "gather_selection_kv_cache.h"

extern "C" __global__ __aicore__ void gather_selection_kv_cache(GM_ADDR kind, GM_ADDR index, GM_ADDR length,
                                                                GM_ADDR source, GM_ADDR work, GM_ADDR work_count,
                                                                GM_ADDR fresh, GM_ADDR backing, GM_ADDR buffer,
                                                                GM_ADDR filled, GM_ADDR buffer_out, GM_ADDR filled_out,
                                                                GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  AscendC::TPipe pipe;
  const tierkv::GatherArgs args{reinterpret_cast<__gm__ int8_t *>(kind),
                                reinterpret_cast<__gm__ int32_t *>(index),
                                reinterpret_cast<__gm__ int32_t *>(length),
                                reinterpret_cast<__gm__ int32_t *>(source),
                                reinterpret_cast<__gm__ int32_t *>(work),
                                reinterpret_cast<__gm__ int32_t *>(work_count),
                                fresh, backing, buffer_out,
                                reinterpret_cast<__gm__ int32_t *>(filled_out)};
  tierkv::Gather<decltype(data)>(args, data).Process(&pipe);
}
