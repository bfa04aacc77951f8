// What the cases share: x, y and z, 256 elements each, 64 of workspace, and a buffer of 64 in UB. Nobody has
// written y and workspace.
#pragma once

#include "kernel_operator.h"

using namespace AscendC;

struct Bench {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  GlobalTensor<int32_t> x, y, z;
  const GM_ADDR workspace;
  LocalTensor<int32_t> ub;
  const bool bad;

  __aicore__ inline Bench(GM_ADDR x_at, GM_ADDR y_at, GM_ADDR z_at, GM_ADDR workspace_at, bool plant)
      : workspace(workspace_at), bad(plant) {
    x.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(x_at));
    y.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(y_at), 256);
    z.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(z_at), 256);
    pipe.InitBuffer(buffer, 256);
    ub = buffer.Get<int32_t>();
  }

  __aicore__ inline void Clear() {
    Duplicate<int32_t>(ub, 0, 64);
    PipeBarrier<PIPE_ALL>();
  }

  // Another buffer of 64.
  __aicore__ inline LocalTensor<int32_t> Another() {
    TBuf<> more;
    pipe.InitBuffer(more, 256);
    return more.Get<int32_t>();
  }
};
