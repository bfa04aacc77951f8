// Small vector steps on int32 arrays in UB. None orders itself after what the caller did before, nor before
// what comes next: the caller puts PipeBarrier<PIPE_V> between steps that share memory.
#pragma once

#include "sync.h"

namespace tierkv {

using Ints = AscendC::LocalTensor<int32_t>;
using Bits = AscendC::LocalTensor<uint8_t>;  // bit i belongs to entry i

constexpr uint32_t kBlockBytes = 32;
constexpr uint32_t kCompareInts = 64;  // compares take multiples of 256 bytes

__aicore__ inline constexpr uint32_t RoundUp(uint32_t a, uint32_t unit) { return (a + unit - 1) / unit * unit; }

// A new buffer of `count` elements, or as many more as fill 32 bytes.
template <typename T>
__aicore__ inline AscendC::LocalTensor<T> Take(AscendC::TPipe *pipe, uint32_t count) {
  AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
  pipe->InitBuffer(buffer, RoundUp(count * sizeof(T), kBlockBytes));
  return buffer.Get<T>();
}

__aicore__ inline __gm__ int32_t *AsInts(GM_ADDR address) { return reinterpret_cast<__gm__ int32_t *>(address); }
__aicore__ inline AscendC::LocalTensor<float> Floats(const Ints &ints) { return ints.ReinterpretCast<float>(); }
__aicore__ inline AscendC::LocalTensor<uint32_t> Words(const Ints &ints) { return ints.ReinterpretCast<uint32_t>(); }

// int32 compares for equality only; x <= y is min(x, y) == x.
__aicore__ inline void Equal(const Bits &bits, const Ints &x, const Ints &y, uint32_t n) {
  AscendC::Compare(bits, x, y, AscendC::CMPMODE::EQ, RoundUp(n, kCompareInts));
}

__aicore__ inline void Both(const Bits &bits, const Bits &a, const Bits &b, uint32_t n) {
  AscendC::And(bits.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), b.ReinterpretCast<uint16_t>(),
               static_cast<int32_t>(RoundUp(n, kCompareInts) / 16));
}

__aicore__ inline void Neither(const Bits &bits, const Bits &a, uint32_t n) {
  AscendC::Not(bits.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(),
               static_cast<int32_t>(RoundUp(n, kCompareInts) / 16));
}

// `a` where the bit is set, `b` elsewhere.
__aicore__ inline void Choose(const Ints &to, const Bits &bits, const Ints &a, const Ints &b, uint32_t n) {
  AscendC::Select(Floats(to), bits, Floats(a), Floats(b), AscendC::SELMODE::VSEL_TENSOR_TENSOR_MODE, n);
}

// Moves the entries of `x` [n] whose bit is set to the front of `to`; gives how many.
template <typename T>
__aicore__ inline uint32_t Compress(const AscendC::LocalTensor<T> &to, const AscendC::LocalTensor<T> &x,
                                    const Bits &bits, uint32_t n) {
  uint64_t kept = 0;
  if (n == 0) return 0;
  AscendC::GatherMask(to, x, bits.ReinterpretCast<uint32_t>(), true, n, {1, 1, 0, 0}, kept);
  return static_cast<uint32_t>(kept);
}

// Two neighbours of an int32 array for one scalar access.
struct Pair {
  uint32_t first, second;
};

__aicore__ inline Pair ReadPair(const Ints &list, uint32_t pair) {
  const uint64_t both = list.ReinterpretCast<uint64_t>().GetValue(pair);
  return {static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)};
}

// Writes the first `count` elements to any place in GM.
template <typename T>
__aicore__ inline void Store(__gm__ T *to, const AscendC::LocalTensor<T> &from, uint32_t count) {
  AscendC::GlobalTensor<T> target;
  target.SetGlobalBuffer(to);
  AscendC::DataCopyPad(target, from, AscendC::DataCopyExtParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0});
}

}  // namespace tierkv
