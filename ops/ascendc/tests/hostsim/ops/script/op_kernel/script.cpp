// Interprets steps: five numbers each, the core, what it does, and with what. test_orders.py draws them.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kBlock = 8;  // elements of 32 bytes

enum Verb { kGet, kSet, kAdds, kAdd, kLoad, kStore, kGetGm, kBarrier, kFlag, kSyncAll };

template <HardEvent event>
__aicore__ inline void Flag(int how) {
  if (how & 1) SetFlag<event>(EVENT_ID0);
  if (how & 2) WaitFlag<event>(EVENT_ID0);
}

__aicore__ inline void Barrier(int which) {
  switch (which) {
    case 0: return PipeBarrier<PIPE_V>();
    case 1: return PipeBarrier<PIPE_MTE2>();
    case 2: return PipeBarrier<PIPE_MTE3>();
    default: return PipeBarrier<PIPE_ALL>();
  }
}

__aicore__ inline void Flags(int event, int how) {
  switch (event) {
    case 0: return Flag<HardEvent::MTE2_V>(how);
    case 1: return Flag<HardEvent::V_MTE2>(how);
    case 2: return Flag<HardEvent::MTE2_S>(how);
    case 3: return Flag<HardEvent::S_MTE2>(how);
    case 4: return Flag<HardEvent::MTE3_V>(how);
    case 5: return Flag<HardEvent::V_MTE3>(how);
    case 6: return Flag<HardEvent::MTE3_S>(how);
    case 7: return Flag<HardEvent::S_MTE3>(how);
    case 8: return Flag<HardEvent::V_S>(how);
    case 9: return Flag<HardEvent::S_V>(how);
    case 10: return Flag<HardEvent::MTE2_MTE3>(how);
    default: return Flag<HardEvent::MTE3_MTE2>(how);
  }
}

// `a`, `b` and `c` are blocks of `ub`; of copies, a block, an element of `z` and a number of elements.
__aicore__ inline void Act(const LocalTensor<int32_t> &ub, const GlobalTensor<int32_t> &z, int act, int a, int b,
                           int c) {
  const DataCopyExtParams some(1, c * sizeof(int32_t), 0, 0, 0);
  const DataCopyPadExtParams<int32_t> fill(true, 0, static_cast<uint8_t>(kBlock - c), 0);
  switch (act) {
    case kGet: return static_cast<void>(ub.GetValue(a * kBlock));
    case kSet: return ub.SetValue(a * kBlock, 1);
    case kAdds: return Adds<int32_t>(ub[a * kBlock], ub[b * kBlock], 1, kBlock);
    case kAdd: return Add<int32_t>(ub[a * kBlock], ub[b * kBlock], ub[c * kBlock], kBlock);
    case kLoad: return DataCopyPad(ub[a * kBlock], z[b], some, fill);
    case kStore: return DataCopyPad(z[b], ub[a * kBlock], some);
    case kGetGm: return static_cast<void>(z.GetValue(b));
    case kBarrier: return Barrier(a);
    default: return Flags(a, c);
  }
}

extern "C" __global__ __aicore__ void script(GM_ADDR steps, GM_ADDR z_in, GM_ADDR z_out, GM_ADDR workspace,
                                             GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 3 * kBlock * sizeof(int32_t));
  const LocalTensor<int32_t> ub = buffer.Get<int32_t>();
  GlobalTensor<int32_t> list, z;
  list.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(steps));
  z.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(z_out));
  Duplicate<int32_t>(ub, 0, 3 * kBlock);
  PipeBarrier<PIPE_ALL>();
  for (uint32_t i = 0; i < data.steps; ++i) {
    int step[5];
    for (uint32_t k = 0; k < 5; ++k) step[k] = list.GetValue(i * 5 + k);
    if (step[1] == kSyncAll) {
      SyncAll<true>();
    } else if (step[0] == GetBlockIdx()) {
      Act(ub, z, step[1], step[2], step[3], step[4]);
    }
  }
}
