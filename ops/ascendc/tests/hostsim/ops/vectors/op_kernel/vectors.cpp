// One vector instruction at a time on a and b, 256 elements of 4 bytes each.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t kCount = 256;

struct Operands {
  LocalTensor<int32_t> a, b, out, work;
  int32_t option;

  template <typename T>
  __aicore__ inline LocalTensor<T> A() const { return a.ReinterpretCast<T>(); }
  template <typename T>
  __aicore__ inline LocalTensor<T> B() const { return b.ReinterpretCast<T>(); }
  template <typename T>
  __aicore__ inline LocalTensor<T> Out() const { return out.ReinterpretCast<T>(); }
};

template <typename T>
__aicore__ inline void Arithmetic(const Operands &o, int32_t count) {
  switch (o.option) {
    case 0: return Add(o.Out<T>(), o.A<T>(), o.B<T>(), count);
    case 1: return Sub(o.Out<T>(), o.A<T>(), o.B<T>(), count);
    case 2: return Mul(o.Out<T>(), o.A<T>(), o.B<T>(), count);
    case 3: return Max(o.Out<T>(), o.A<T>(), o.B<T>(), count);
    case 4: return Min(o.Out<T>(), o.A<T>(), o.B<T>(), count);
    case 5: return Adds<T>(o.Out<T>(), o.A<T>(), 7, count);
    case 6: return Muls<T>(o.Out<T>(), o.A<T>(), 7, count);
    case 7: return Maxs<T>(o.Out<T>(), o.A<T>(), 7, count);
    case 8: return Mins<T>(o.Out<T>(), o.A<T>(), 7, count);
    default: return Duplicate<T>(o.Out<T>(), 7, count);
  }
}

__aicore__ inline void Bits(const Operands &o) {
  switch (o.option) {
    case 0: return And(o.Out<int16_t>(), o.A<int16_t>(), o.B<int16_t>(), 2 * kCount);
    case 1: return Or(o.Out<uint16_t>(), o.A<uint16_t>(), o.B<uint16_t>(), 2 * kCount);
    case 2: return Not(o.Out<int16_t>(), o.A<int16_t>(), 2 * kCount);
    case 3: return ShiftLeft(o.out, o.a, 3, kCount);
    case 4: return ShiftRight(o.out, o.a, 3, kCount);
    default: return ShiftRight<uint32_t>(o.Out<uint32_t>(), o.A<uint32_t>(), 3, kCount);
  }
}

// Through half and int8, back to int32 by float.
__aicore__ inline void Narrow(const Operands &o) {
  const LocalTensor<half> halves = o.work.ReinterpretCast<half>();
  const LocalTensor<int8_t> bytes = o.b.ReinterpretCast<int8_t>();
  Cast(halves, o.A<float>(), RoundMode::CAST_NONE, kCount);
  PipeBarrier<PIPE_V>();
  Cast(bytes, halves, RoundMode::CAST_RINT, kCount);
  PipeBarrier<PIPE_V>();
  Cast(halves, bytes, RoundMode::CAST_NONE, kCount);
  PipeBarrier<PIPE_V>();
  Cast(o.Out<float>(), halves, RoundMode::CAST_NONE, kCount);
}

__aicore__ inline void Casts(const Operands &o) {
  const auto mode = static_cast<RoundMode>(o.option);
  if (mode != RoundMode::CAST_NONE) return Cast(o.out, o.A<float>(), mode, kCount);
  const LocalTensor<int16_t> shorts = o.work.ReinterpretCast<int16_t>();
  Cast(shorts, o.A<int32_t>(), mode, kCount);
  PipeBarrier<PIPE_V>();
  Cast(o.Out<float>(), shorts, mode, kCount);
  PipeBarrier<PIPE_V>();
  Cast(o.out, o.Out<float>(), RoundMode::CAST_RINT, kCount);
}

__aicore__ inline void Choose(const Operands &o) {
  const LocalTensor<uint8_t> mask = o.work.ReinterpretCast<uint8_t>();
  if (o.option < 6) {
    Compare(mask, o.A<float>(), o.B<float>(), static_cast<CMPMODE>(o.option), kCount);
    PipeBarrier<PIPE_V>();
    return Select(o.Out<float>(), mask, o.A<float>(), o.B<float>(), SELMODE::VSEL_TENSOR_TENSOR_MODE, kCount);
  }
  CompareScalar(mask, o.A<float>(), 0.5f, static_cast<CMPMODE>(o.option - 6), kCount);
  PipeBarrier<PIPE_V>();
  Select(o.Out<float>(), mask, o.A<float>(), 9.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, kCount);
}

// Patterns 1 to 7, or b's bits; the rest of out is the number of elements kept.
__aicore__ inline void Masked(const Operands &o) {
  uint64_t kept = 0;
  if (o.option) {
    GatherMask(o.out, o.a, static_cast<uint8_t>(o.option), true, 100, GatherMaskParams(1, 2, 16, 0), kept);
  } else {
    GatherMask(o.out, o.a, o.B<uint32_t>(), true, 100, GatherMaskParams(1, 2, 16, 1), kept);
  }
  PipeBarrier<PIPE_ALL>();
  for (uint64_t i = kept; i < kCount; ++i) o.out.SetValue(static_cast<uint32_t>(i), static_cast<int32_t>(kept));
}

__aicore__ inline void Reduce(const Operands &o) {
  const LocalTensor<float> work = o.work.ReinterpretCast<float>(), out = o.Out<float>();
  Duplicate(out, 0.0f, kCount);
  PipeBarrier<PIPE_V>();
  if (o.option == 0) ReduceMax(out, o.A<float>(), work, kCount, true);
  if (o.option == 1) ReduceMin(out, o.A<float>(), work, kCount, true);
  if (o.option == 2) ReduceSum(out, o.A<float>(), work, kCount);
}

__aicore__ inline void Indices(const Operands &o) {
  if (o.option == 0) CreateVecIndex<int32_t>(o.out, 5, kCount);
  if (o.option == 1) ArithProgression<int32_t>(o.out, 5, -3, kCount);
  if (o.option == 2) Gather(o.out, o.a, o.B<uint32_t>(), 64, kCount);
}

extern "C" __global__ __aicore__ void vectors(GM_ADDR a, GM_ADDR b, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  TPipe pipe;
  GlobalTensor<int32_t> gm_a, gm_b, gm_out;
  gm_a.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(a), kCount);
  gm_b.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(b), kCount);
  gm_out.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(out), kCount);
  TBuf<> buffers[4];
  for (auto &buffer : buffers) pipe.InitBuffer(buffer, kCount * 4);
  const Operands o{buffers[0].Get<int32_t>(), buffers[1].Get<int32_t>(), buffers[2].Get<int32_t>(),
                   buffers[3].Get<int32_t>(), data.option};
  if (data.which == 9) {
    // Rows of 12 bytes in a stride of 20, to blocks of 32 bytes with a gap of one, and back.
    DataCopyPad(o.a, gm_a, DataCopyExtParams(8, 12, 8, 1, 0), DataCopyPadExtParams<int32_t>(true, 1, 2, -5));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(gm_out, o.a, DataCopyExtParams(8, 24, 1, 4, 0));
    return;
  }
  DataCopy(o.a, gm_a, kCount);
  DataCopy(o.b, gm_b, kCount);
  PipeBarrier<PIPE_ALL>();
  switch (data.which) {
    case 0: Arithmetic<int32_t>(o, kCount); break;
    case 1: Arithmetic<float>(o, kCount); break;
    case 2: Arithmetic<int16_t>(o, 2 * kCount); break;
    case 3: Bits(o); break;
    case 4: Narrow(o); break;
    case 5: Casts(o); break;
    case 6: Choose(o); break;
    case 7: Masked(o); break;
    case 8: Reduce(o); break;
    default: Indices(o); break;
  }
  PipeBarrier<PIPE_ALL>();
  DataCopy(gm_out, o.out, kCount);
}
