// Cases 100 to 199: what one core does to memory, and its queues.
#pragma once

#include "planted.h"

__aicore__ inline void PastTheTensor(Bench &b) { DataCopy(b.ub, b.x[b.bad ? 200 : 192], 64); }

__aicore__ inline void PastTheGlobalTensor(Bench &b) {
  GlobalTensor<int32_t> part;
  part.SetGlobalBuffer(const_cast<__gm__ int32_t *>(b.x.GetPhyAddr(64)), b.bad ? 63 : 64);
  DataCopy(b.ub, part, 64);
}

__aicore__ inline void BeforeTheTensor(Bench &b) { DataCopy(b.ub, b.x[b.bad ? uint64_t(-8) : 8], 64); }

__aicore__ inline void PastTheBuffer(Bench &b) { DataCopy(b.ub[8], b.x, b.bad ? 64 : 56); }

__aicore__ inline void ScalarPastTheBuffer(Bench &b) { b.ub.SetValue(b.bad ? 64 : 63, 1); }

__aicore__ inline void GatherPastTheBuffer(Bench &b) {
  b.Clear();
  TBuf<> offsets;
  b.pipe.InitBuffer(offsets, 512);
  LocalTensor<uint32_t> at = offsets.Get<uint32_t>();
  Duplicate<uint32_t>(at, b.bad ? 256 : 252, 64);
  PipeBarrier<PIPE_V>();
  Gather(at[64].ReinterpretCast<int32_t>(), b.ub, at, 0, 64);
}

__aicore__ inline void Misaligned(Bench &b) {
  b.Clear();
  Adds<int32_t>(b.ub[b.bad ? 4 : 8], b.ub[b.bad ? 4 : 8], 1, 8);
}

__aicore__ inline void OddLength(Bench &b) { DataCopy(b.ub, b.x, b.bad ? 12 : 16); }

__aicore__ inline void CompareOddLength(Bench &b) {
  b.Clear();
  TBuf<> bits;
  b.pipe.InitBuffer(bits, 32);
  CompareScalar(bits.Get<uint8_t>(), b.ub.ReinterpretCast<float>(), 0.0f, CMPMODE::LT, b.bad ? 40 : 64);
}

__aicore__ inline void CompareIntegers(Bench &b) {
  b.Clear();
  TBuf<> bits;
  b.pipe.InitBuffer(bits, 32);
  CompareScalar(bits.Get<uint8_t>(), b.ub, 0, b.bad ? CMPMODE::LT : CMPMODE::EQ, 64);
}

__aicore__ inline void TooMuchUb(Bench &b) {
  TBuf<> large;
  b.pipe.InitBuffer(large, 192 * 1024 - (b.bad ? 224 : 256));
}

__aicore__ inline void SelectAtTheEnd(Bench &b) {
  b.Clear();
  TBuf<> large;
  b.pipe.InitBuffer(large, 184 * 1024 - (b.bad ? 224 : 256));
  LocalTensor<uint8_t> bits = large.Get<uint8_t>();
  Duplicate<int32_t>(bits.ReinterpretCast<int32_t>(), 0, 8);
  PipeBarrier<PIPE_V>();
  LocalTensor<float> values = b.ub.ReinterpretCast<float>();
  Select(values, bits, values, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
}

__aicore__ inline void ReadUnwritten(Bench &b) {
  b.ub.SetValue(0, 1);
  b.ub.SetValue(1, b.ub.GetValue(b.bad ? 2 : 0));
}

// Undefined values may be computed with, but not leave the core.
__aicore__ inline void StoreUnwritten(Bench &b) {
  Duplicate<int32_t>(b.ub, 0, 40);
  PipeBarrier<PIPE_V>();
  Adds<int32_t>(b.ub, b.ub, 1, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(b.y, b.ub, DataCopyExtParams(1, b.bad ? 164 : 160, 0, 0, 0));
}

__aicore__ inline void ReadThePadding(Bench &b) {
  const DataCopyPadExtParams<int32_t> pad(!b.bad, 0, 1, 5);
  DataCopyPad(b.ub, b.x, DataCopyExtParams(1, 12, 0, 0, 0), pad);
  PipeBarrier<PIPE_ALL>();
  b.ub.SetValue(0, b.ub.GetValue(3));
}

__aicore__ inline void ManyBlocks(Bench &b) {
  DataCopyPad(b.ub, b.x, DataCopyExtParams(b.bad ? 0 : 1, 4, 0, 0, 0), DataCopyPadExtParams<int32_t>());
}

__aicore__ inline void QueueTooFull(Bench &b) {
  TQue<TPosition::VECIN, 1> queue;
  b.pipe.InitBuffer(queue, b.bad ? 1 : 2, 64);
  LocalTensor<int32_t> first = queue.AllocTensor<int32_t>(), second = queue.AllocTensor<int32_t>();
  queue.FreeTensor(first);
  if (!b.bad) queue.FreeTensor(second);
}

__aicore__ inline void QueueNotFreed(Bench &b) {
  TQue<TPosition::VECIN, 1> queue;
  b.pipe.InitBuffer(queue, 1, 64);
  LocalTensor<int32_t> tensor = queue.AllocTensor<int32_t>();
  queue.EnQue(tensor);
  tensor = queue.DeQue<int32_t>();
  if (!b.bad) queue.FreeTensor(tensor);
}

__aicore__ inline void QueueEmpty(Bench &b) {
  TQue<TPosition::VECOUT, 1> queue;
  b.pipe.InitBuffer(queue, 1, 64);
  LocalTensor<int32_t> tensor = queue.AllocTensor<int32_t>();
  if (!b.bad) queue.EnQue(tensor);
  tensor = queue.DeQue<int32_t>();
  queue.FreeTensor(tensor);
}

__aicore__ inline void Overlap(Bench &b) {
  b.Clear();
  Adds<int32_t>(b.ub[b.bad ? 8 : 0], b.ub, 1, 32);
}

__aicore__ inline void CastInPlace(Bench &b) {
  b.Clear();
  const LocalTensor<int16_t> narrow = b.ub.ReinterpretCast<int16_t>();
  Cast(narrow[b.bad ? 0 : 64], b.ub, RoundMode::CAST_NONE, 32);
}

__aicore__ inline void CopyMisaligned(Bench &b) {
  DataCopyPad(b.ub[b.bad ? 1 : 8], b.x[1], DataCopyExtParams(1, 4, 0, 0, 0), DataCopyPadExtParams<int32_t>());
}

__aicore__ inline void ScalarMisaligned(Bench &b) {
  b.ub.ReinterpretCast<uint8_t>()[b.bad ? 2 : 4].ReinterpretCast<int32_t>().SetValue(0, 1);
}

__aicore__ inline void RunMemory(Bench &b, int which) {
  switch (which) {
    case 100: return PastTheTensor(b);
    case 101: return PastTheGlobalTensor(b);
    case 102: return BeforeTheTensor(b);
    case 103: return PastTheBuffer(b);
    case 104: return ScalarPastTheBuffer(b);
    case 105: return GatherPastTheBuffer(b);
    case 106: return Misaligned(b);
    case 107: return OddLength(b);
    case 108: return CompareOddLength(b);
    case 109: return CompareIntegers(b);
    case 110: return TooMuchUb(b);
    case 111: return SelectAtTheEnd(b);
    case 112: return ReadUnwritten(b);
    case 113: return StoreUnwritten(b);
    case 114: return ReadThePadding(b);
    case 115: return ManyBlocks(b);
    case 116: return QueueTooFull(b);
    case 117: return QueueNotFreed(b);
    case 118: return QueueEmpty(b);
    case 119: return Overlap(b);
    case 120: return CastInPlace(b);
    case 121: return CopyMisaligned(b);
    default: return ScalarMisaligned(b);
  }
}
