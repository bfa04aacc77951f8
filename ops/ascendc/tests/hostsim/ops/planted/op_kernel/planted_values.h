// Cases 150 to 199: values that are not there, and operands on top of each other.
#pragma once

#include "planted.h"

__aicore__ inline void PastIntoTheNext(Bench &b) {
  GlobalTensor<int32_t> part;
  part.SetGlobalBuffer(const_cast<__gm__ int32_t *>(b.x.GetPhyAddr(b.bad ? 1024 : 192)));
  DataCopy(b.ub, part, 64);
}

__aicore__ inline void LoadUnwritten(Bench &b, GM_ADDR from) {
  GlobalTensor<int32_t> memory;
  memory.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(from));
  b.Clear();
  DataCopy(memory, b.ub, b.bad ? 24 : 64);
  PipeBarrier<PIPE_ALL>();
  DataCopy(b.ub, memory, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopy(b.z, b.ub, 64);
}

__aicore__ inline void ReadUnwrittenGm(Bench &b) {
  if (!b.bad) {
    b.Clear();
    DataCopy(b.y, b.ub, 64);
    PipeBarrier<PIPE_ALL>();
    DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE>(b.y);
  }
  b.ub.SetValue(0, b.y.GetValue(3));
}

__aicore__ inline void SystemWorkspace(Bench &b) {
  GlobalTensor<int32_t> memory;
  GM_ADDR user = GetUserWorkspace(b.workspace);
  memory.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(b.bad ? b.workspace : user));
  b.Clear();
  DataCopy(memory, b.ub, 64);
}

__aicore__ inline void GatherFromTarget(Bench &b) {
  const LocalTensor<uint32_t> at = b.Another().ReinterpretCast<uint32_t>();
  b.Clear();
  Duplicate<uint32_t>(at, b.bad ? 64 : 128, 32);
  PipeBarrier<PIPE_V>();
  Gather(b.ub, b.ub, at, 0, 32);
}

__aicore__ inline void GatherBackwards(Bench &b) {
  const LocalTensor<uint32_t> at = b.Another().ReinterpretCast<uint32_t>();
  b.Clear();
  Duplicate<uint32_t>(at, b.bad ? static_cast<uint32_t>(-4) : 4, 8);
  PipeBarrier<PIPE_V>();
  Gather(b.ub, b.ub[32], at, 0, 8);
}

__aicore__ inline void CompressOntoMask(Bench &b) {
  const LocalTensor<uint32_t> mask = b.Another().ReinterpretCast<uint32_t>();
  b.Clear();
  Duplicate<uint32_t>(mask, 0xff, 16);
  PipeBarrier<PIPE_V>();
  uint64_t kept = 0;
  GatherMask(mask[b.bad ? 0 : 8].ReinterpretCast<int32_t>(), b.ub, mask, true, 8, {1, 1, 0, 0}, kept);
}

// Of 64 elements 35 are values: bits behind them are none.
__aicore__ inline void MaskOfUnwritten(Bench &b) {
  const LocalTensor<int32_t> all = b.Another(), target = b.Another();
  TBuf<> bits;
  b.pipe.InitBuffer(bits, 32);
  const LocalTensor<uint8_t> mask = bits.Get<uint8_t>();
  Duplicate<int32_t>(b.ub, 0, 35);
  Duplicate<int32_t>(all, 0, 64);
  PipeBarrier<PIPE_V>();
  Compare(mask, b.ub, all, CMPMODE::EQ, 64);
  PipeBarrier<PIPE_V>();
  Not(mask.ReinterpretCast<uint16_t>(), mask.ReinterpretCast<uint16_t>(), 4);
  PipeBarrier<PIPE_V>();
  uint64_t kept = 0;
  GatherMask(target, all, mask.ReinterpretCast<uint32_t>(), true, b.bad ? 36 : 35, {1, 1, 0, 0}, kept);
}

__aicore__ inline void SelectByUnwritten(Bench &b) {
  const LocalTensor<int32_t> target = b.Another();
  TBuf<> bits;
  b.pipe.InitBuffer(bits, 32);
  const LocalTensor<uint8_t> mask = bits.Get<uint8_t>();
  Duplicate<int32_t>(b.ub, 0, 35);
  PipeBarrier<PIPE_V>();
  CompareScalar(mask, b.ub.ReinterpretCast<float>(), 0.0f, CMPMODE::EQ, 64);
  PipeBarrier<PIPE_V>();
  Duplicate<int32_t>(b.ub, 0, 64);
  PipeBarrier<PIPE_V>();
  const LocalTensor<float> values = b.ub.ReinterpretCast<float>();
  Select(target.ReinterpretCast<float>(), mask, values, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(b.y, target, DataCopyExtParams(1, b.bad ? 144 : 140, 0, 0, 0));
}

__aicore__ inline void BeforeReset(Bench &b) {
  LocalTensor<int32_t> used = b.ub;
  b.pipe.Reset();
  if (!b.bad) used = b.Another();
  Duplicate<int32_t>(used, 0, 64);
}

__aicore__ inline void ManyBuffers(Bench &b) {
  for (int i = 1; i < (b.bad ? 65 : 64); ++i) b.Another();
}

// 16 vectors of values leave two results each behind.
__aicore__ inline void SmallWork(Bench &b) {
  TBuf<> values, work;
  b.pipe.InitBuffer(values, 4096);
  b.pipe.InitBuffer(work, b.bad ? 96 : 128);
  const LocalTensor<float> all = values.Get<float>();
  Duplicate<float>(all, 0.0f, 1024);
  PipeBarrier<PIPE_V>();
  ReduceMax(b.ub.ReinterpretCast<float>(), all, work.Get<float>(), 1024);
}

__aicore__ inline void RunValues(Bench &b, int which) {
  switch (which) {
    case 150: return PastIntoTheNext(b);
    case 151: return LoadUnwritten(b, GetUserWorkspace(b.workspace));
    case 152: return LoadUnwritten(b, reinterpret_cast<GM_ADDR>(const_cast<int32_t *>(b.y.GetPhyAddr())));
    case 153: return ReadUnwrittenGm(b);
    case 154: return SystemWorkspace(b);
    case 155: return GatherFromTarget(b);
    case 156: return GatherBackwards(b);
    case 157: return CompressOntoMask(b);
    case 158: return MaskOfUnwritten(b);
    case 159: return SelectByUnwritten(b);
    case 160: return BeforeReset(b);
    case 161: return ManyBuffers(b);
    default: return SmallWork(b);
  }
}
