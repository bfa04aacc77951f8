#include "gather_selection_place.h"

extern "C" __global__ __aicore__ void gather_selection_place(GM_ADDR lanes, GM_ADDR ids, GM_ADDR kind,
                                                             GM_ADDR miss_from, GM_ADDR id_at, GM_ADDR row_of,
                                                             GM_ADDR counters, GM_ADDR id_at_out, GM_ADDR row_of_out,
                                                             GM_ADDR slot, GM_ADDR count, GM_ADDR counters_out,
                                                             GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  AscendC::TPipe pipe;
  const tierkv::PlaceGatherArgs args{
      reinterpret_cast<__gm__ int32_t *>(lanes),     reinterpret_cast<__gm__ int32_t *>(ids),
      reinterpret_cast<__gm__ int8_t *>(kind),       reinterpret_cast<__gm__ int32_t *>(miss_from),
      reinterpret_cast<__gm__ int32_t *>(id_at_out), reinterpret_cast<__gm__ int32_t *>(row_of_out),
      reinterpret_cast<__gm__ int32_t *>(slot),      reinterpret_cast<__gm__ int32_t *>(count),
      reinterpret_cast<__gm__ int64_t *>(counters_out)};
  tierkv::PlaceGather<decltype(data)>(args, data).Process(&pipe);
}
