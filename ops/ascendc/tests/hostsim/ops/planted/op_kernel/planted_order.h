// Cases 0 to 99: order between the pipes of one core.
#pragma once

#include "planted.h"

// Each touches the buffer so that any two of different pipes conflict.
__aicore__ inline void Act(Bench &b, pipe_t pipe) {
  if (pipe == PIPE_S) b.ub.SetValue(0, 1);
  if (pipe == PIPE_V) Adds<int32_t>(b.ub, b.ub, 1, 64);
  if (pipe == PIPE_MTE2) DataCopy(b.ub, b.x, 64);
  if (pipe == PIPE_MTE3) DataCopy(b.y, b.ub, 64);
}

template <HardEvent event>
__aicore__ inline void Pair(Bench &b, pipe_t first, pipe_t second) {
  b.Clear();
  Act(b, first);
  if (!b.bad) {
    SetFlag<event>(EVENT_ID3);
    WaitFlag<event>(EVENT_ID3);
  }
  Act(b, second);
}

template <pipe_t pipe>
__aicore__ inline void Twice(Bench &b) {
  b.Clear();
  Act(b, pipe);
  if (!b.bad) PipeBarrier<pipe>();
  Act(b, pipe);
}

// An edge by way of a third pipe: MTE2 -> V -> MTE3.
__aicore__ inline void Transitive(Bench &b) {
  b.Clear();
  DataCopy(b.ub, b.x, 64);
  SetFlag<HardEvent::MTE2_V>(0);
  if (!b.bad) WaitFlag<HardEvent::MTE2_V>(0);
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(b.y, b.ub, 64);
  if (b.bad) WaitFlag<HardEvent::MTE2_V>(0);
}

__aicore__ inline void StoreThenLoad(Bench &b) {
  b.Clear();
  TBuf<> other;
  b.pipe.InitBuffer(other, 256);
  DataCopy(b.y, b.ub, 64);
  if (!b.bad) {
    SetFlag<HardEvent::MTE3_MTE2>(0);
    WaitFlag<HardEvent::MTE3_MTE2>(0);
  }
  DataCopy(other.Get<int32_t>(), b.y, 64);
}

// The first pass needs no wait, so that the flag is primed before, and taken back behind the loop.
__aicore__ inline void Loop(Bench &b) {
  b.Clear();
  SetFlag<HardEvent::MTE3_MTE2>(1);
  for (uint32_t i = 0; i < 4; ++i) {
    WaitFlag<HardEvent::MTE3_MTE2>(1);
    DataCopy(b.ub, b.x[i * 64], 64);
    SetFlag<HardEvent::MTE2_MTE3>(1);
    WaitFlag<HardEvent::MTE2_MTE3>(1);
    DataCopy(b.y[i * 64], b.ub, 64);
    SetFlag<HardEvent::MTE3_MTE2>(1);
  }
  if (!b.bad) WaitFlag<HardEvent::MTE3_MTE2>(1);
}

__aicore__ inline void SetTwice(Bench &b) {
  SetFlag<HardEvent::V_S>(2);
  if (!b.bad) WaitFlag<HardEvent::V_S>(2);
  SetFlag<HardEvent::V_S>(2);
  WaitFlag<HardEvent::V_S>(2);
}

__aicore__ inline void WaitFirst(Bench &b) {
  if (!b.bad) SetFlag<HardEvent::V_S>(2);
  WaitFlag<HardEvent::V_S>(2);
}

__aicore__ inline void ManyIds(Bench &b) {
  TEventID ids[9];
  const int count = b.bad ? 9 : 8;
  for (int i = 0; i < count; ++i) ids[i] = b.pipe.AllocEventID<HardEvent::V_S>();
  for (int i = 0; i < 8; ++i) b.pipe.ReleaseEventID<HardEvent::V_S>(ids[i]);
}

__aicore__ inline void LargeId(Bench &b) {
  const int32_t id = b.bad ? 8 : 7;
  SetFlag<HardEvent::V_S>(id);
  WaitFlag<HardEvent::V_S>(id);
}

// A step that changes its own source in place does not hide who read it before.
__aicore__ inline void InPlace(Bench &b) {
  b.Clear();
  const LocalTensor<int32_t> other = b.Another();
  Adds<int32_t>(other, b.ub, 1, 64);
  if (!b.bad) PipeBarrier<PIPE_V>();
  Adds<int32_t>(b.ub, b.ub, 1, 64);
}

// The vector pipe's barrier is no edge to another pipe.
template <HardEvent event>
__aicore__ inline void BarrierOnly(Bench &b, pipe_t second) {
  Duplicate<int32_t>(b.ub, 0, 64);
  PipeBarrier<PIPE_V>();
  if (!b.bad) {
    SetFlag<event>(EVENT_ID0);
    WaitFlag<event>(EVENT_ID0);
  }
  if (second == PIPE_S) b.ub.SetValue(0, b.ub.GetValue(1));
  if (second == PIPE_MTE3) DataCopy(b.y, b.ub, 64);
}

__aicore__ inline void ScalarBeforeClear(Bench &b) {
  b.ub.SetValue(5, 1);
  if (!b.bad) {
    SetFlag<HardEvent::S_V>(EVENT_ID0);
    WaitFlag<HardEvent::S_V>(EVENT_ID0);
  }
  Duplicate<int32_t>(b.ub, 0, 64);
}

// Two halves of a buffer by turns, with a flag each; `bad` waits for the other half's.
__aicore__ inline void WrongHalf(Bench &b) {
  for (int32_t half = 0; half < 2; ++half) SetFlag<HardEvent::MTE3_MTE2>(half);
  for (int32_t i = 0; i < 4; ++i) {
    const int32_t half = i % 2;
    const LocalTensor<int32_t> part = b.ub[(b.bad && i == 2 ? 1 - half : half) * 32];
    WaitFlag<HardEvent::MTE3_MTE2>(half);
    DataCopy(part, b.x[i * 32], 32);
    SetFlag<HardEvent::MTE2_MTE3>(half);
    WaitFlag<HardEvent::MTE2_MTE3>(half);
    DataCopy(b.y[i * 32], part, 32);
    SetFlag<HardEvent::MTE3_MTE2>(half);
  }
  for (int32_t half = 0; half < 2; ++half) WaitFlag<HardEvent::MTE3_MTE2>(half);
}

__aicore__ inline void RunOrder(Bench &b, int which) {
  switch (which) {
    case 0: return Pair<HardEvent::MTE2_V>(b, PIPE_MTE2, PIPE_V);
    case 1: return Pair<HardEvent::V_MTE2>(b, PIPE_V, PIPE_MTE2);
    case 2: return Pair<HardEvent::MTE2_S>(b, PIPE_MTE2, PIPE_S);
    case 3: return Pair<HardEvent::S_MTE2>(b, PIPE_S, PIPE_MTE2);
    case 4: return Pair<HardEvent::MTE3_V>(b, PIPE_MTE3, PIPE_V);
    case 5: return Pair<HardEvent::V_MTE3>(b, PIPE_V, PIPE_MTE3);
    case 6: return Pair<HardEvent::MTE3_S>(b, PIPE_MTE3, PIPE_S);
    case 7: return Pair<HardEvent::S_MTE3>(b, PIPE_S, PIPE_MTE3);
    case 8: return Pair<HardEvent::V_S>(b, PIPE_V, PIPE_S);
    case 9: return Pair<HardEvent::S_V>(b, PIPE_S, PIPE_V);
    case 10: return Pair<HardEvent::MTE2_MTE3>(b, PIPE_MTE2, PIPE_MTE3);
    case 11: return Pair<HardEvent::MTE3_MTE2>(b, PIPE_MTE3, PIPE_MTE2);
    case 12: return Twice<PIPE_V>(b);
    case 13: return Twice<PIPE_MTE2>(b);
    case 14: return Twice<PIPE_MTE3>(b);
    case 15: return Transitive(b);
    case 16: return StoreThenLoad(b);
    case 17: return Loop(b);
    case 18: return SetTwice(b);
    case 19: return WaitFirst(b);
    case 20: return ManyIds(b);
    case 21: return LargeId(b);
    case 22: return InPlace(b);
    case 23: return BarrierOnly<HardEvent::V_S>(b, PIPE_S);
    case 24: return BarrierOnly<HardEvent::V_MTE3>(b, PIPE_MTE3);
    case 25: return ScalarBeforeClear(b);
    default: return WrongHalf(b);
  }
}
