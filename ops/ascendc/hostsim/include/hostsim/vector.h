// Vector instructions on the first `count` elements: one source, two, or a source and a scalar.
#pragma once

#include <type_traits>

#include "hostsim/tensor.h"

namespace hostsim {

template <typename T, typename... Allowed>
constexpr bool kOneOf = (std::is_same_v<T, Allowed> || ...);

// Types of the arithmetic instructions on Atlas A2 and A3.
template <typename T>
constexpr bool kArithmetic = kOneOf<T, int16_t, half, int32_t, float>;
template <typename T>
constexpr bool kShifted = kOneOf<T, int16_t, uint16_t, int32_t, uint32_t>;

// Integers wrap around; half rounds after each operation.
template <typename T, typename F>
T Wrapped(T a, T b, F op) {
  if constexpr (kOneOf<T, half, float>) {
    return T(op(float{a}, float{b}));
  } else {
    return static_cast<T>(op(static_cast<uint32_t>(a), static_cast<uint32_t>(b)));
  }
}

template <typename T, typename F>
void Fill(const char *name, const AscendC::LocalTensor<T> &dst, uint32_t count, Site site, F value) {
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  Instruction op(Pipe::kVector, name, site);
  op.Cost(bytes, (bytes + 255) / 256);
  if (count == 0 || !op.Write(dst.Memory(), bytes)) return;
  T *d = dst.Data();
  for (uint32_t i = 0; i < count; ++i) d[i] = value(i);
  op.Define(dst.Memory(), bytes);
}

template <typename T, typename F>
void Unary(const char *name, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src, int32_t count,
           Site site, F value) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  Instruction op(Pipe::kVector, name, site);
  op.Cost(bytes, (bytes + 255) / 256);
  if (!op.Check(count >= 0, "bounds", "a negative count") || count == 0) return;
  if (!op.Read(src.Memory(), bytes) || !op.Write(dst.Memory(), bytes)) return;
  T *d = dst.Data();
  const T *s = src.Data();
#pragma GCC ivdep
  for (int32_t i = 0; i < count; ++i) d[i] = value(s[i]);
  op.Follow(dst.Memory(), bytes, src.Memory(), src.Memory());
}

template <typename T, typename F>
void Binary(const char *name, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &a,
            const AscendC::LocalTensor<T> &b, int32_t count, Site site, F value) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  Instruction op(Pipe::kVector, name, site);
  op.Cost(bytes, (bytes + 255) / 256);
  if (!op.Check(count >= 0, "bounds", "a negative count") || count == 0) return;
  if (!op.Read(a.Memory(), bytes) || !op.Read(b.Memory(), bytes) || !op.Write(dst.Memory(), bytes)) return;
  T *d = dst.Data();
  const T *x = a.Data(), *y = b.Data();
#pragma GCC ivdep
  for (int32_t i = 0; i < count; ++i) d[i] = value(x[i], y[i]);
  op.Follow(dst.Memory(), bytes, a.Memory(), b.Memory());
}

// Mark which elements of a result hold values: all, or those that are `known`.
template <typename F>
void Mark(Instruction &op, const Ub &target, uint64_t size, uint64_t count, bool all, F known) {
  if (all) return op.Define(target, count * size);
  for (uint64_t i = 0; i < count; ++i) {
    known(i) ? op.Define(target + i * size, size) : op.Undefine(target + i * size, size);
  }
}

}  // namespace hostsim

namespace AscendC {

#define HOSTSIM_BINARY(Name, allowed, expression)                                                                \
  template <typename T>                                                                                          \
  inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,            \
                   const int32_t &count, HOSTSIM_SITE) {                                                         \
    static_assert(allowed, #Name ": no such type on this device");                                               \
    hostsim::Binary(#Name, dst, src0, src1, count, HOSTSIM_HERE, [](T a, T b) -> T { return expression; });      \
  }

HOSTSIM_BINARY(Add, hostsim::kArithmetic<T>, hostsim::Wrapped(a, b, [](auto x, auto y) { return x + y; }))
HOSTSIM_BINARY(Sub, hostsim::kArithmetic<T>, hostsim::Wrapped(a, b, [](auto x, auto y) { return x - y; }))
HOSTSIM_BINARY(Mul, hostsim::kArithmetic<T>, hostsim::Wrapped(a, b, [](auto x, auto y) { return x * y; }))
HOSTSIM_BINARY(Div, (hostsim::kOneOf<T, half, float>), hostsim::Wrapped(a, b, [](auto x, auto y) { return x / y; }))
HOSTSIM_BINARY(Max, hostsim::kArithmetic<T>, a > b ? a : b)
HOSTSIM_BINARY(Min, hostsim::kArithmetic<T>, a < b ? a : b)
HOSTSIM_BINARY(And, (hostsim::kOneOf<T, int16_t, uint16_t>), static_cast<T>(a &b))
HOSTSIM_BINARY(Or, (hostsim::kOneOf<T, int16_t, uint16_t>), static_cast<T>(a | b))
#undef HOSTSIM_BINARY

#define HOSTSIM_SCALAR(Name, allowed, expression)                                                                \
  template <typename T>                                                                                          \
  inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const T &scalar, const int32_t &count,  \
                   HOSTSIM_SITE) {                                                                               \
    static_assert(allowed, #Name ": no such type on this device");                                               \
    hostsim::Unary(#Name, dst, src, count, HOSTSIM_HERE, [b = scalar](T a) -> T { return expression; });         \
  }

HOSTSIM_SCALAR(Adds, hostsim::kArithmetic<T>, hostsim::Wrapped(a, b, [](auto x, auto y) { return x + y; }))
HOSTSIM_SCALAR(Muls, hostsim::kArithmetic<T>, hostsim::Wrapped(a, b, [](auto x, auto y) { return x * y; }))
HOSTSIM_SCALAR(Maxs, hostsim::kArithmetic<T>, a > b ? a : b)
HOSTSIM_SCALAR(Mins, hostsim::kArithmetic<T>, a < b ? a : b)
HOSTSIM_SCALAR(ShiftLeft, hostsim::kShifted<T>, static_cast<T>(static_cast<uint32_t>(a) << static_cast<uint32_t>(b)))
HOSTSIM_SCALAR(ShiftRight, hostsim::kShifted<T>, static_cast<T>(a >> b))
#undef HOSTSIM_SCALAR

template <typename T>
inline void Not(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count, HOSTSIM_SITE) {
  static_assert(hostsim::kOneOf<T, int16_t, uint16_t>, "Not: no such type on this device");
  hostsim::Unary("Not", dst, src, count, HOSTSIM_HERE, [](T a) { return static_cast<T>(~a); });
}

template <typename T>
inline void Abs(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count, HOSTSIM_SITE) {
  static_assert(hostsim::kOneOf<T, half, float>, "Abs: no such type on this device");
  hostsim::Unary("Abs", dst, src, count, HOSTSIM_HERE, [](T a) { return a < T(0.0f) ? T(-a) : a; });
}

template <typename T>
inline void Duplicate(const LocalTensor<T> &dst, const T &value, const int32_t &count, HOSTSIM_SITE) {
  static_assert(hostsim::kArithmetic<T> || hostsim::kOneOf<T, bfloat16_t, uint16_t, uint32_t>,
                "Duplicate: no such type on this device");
  hostsim::Fill("Duplicate", dst, static_cast<uint32_t>(count), HOSTSIM_HERE, [value](uint32_t) { return value; });
}

template <typename T>
inline void CreateVecIndex(LocalTensor<T> dst, const T &first, uint32_t count, HOSTSIM_SITE) {
  static_assert(hostsim::kArithmetic<T>, "CreateVecIndex: no such type on this device");
  hostsim::Fill("CreateVecIndex", dst, count, HOSTSIM_HERE, [first](uint32_t i) { return static_cast<T>(first + i); });
}

template <typename T>
inline void ArithProgression(const LocalTensor<T> &dst, const T first, const T step, const int32_t count,
                             HOSTSIM_SITE) {
  static_assert(hostsim::kArithmetic<T>, "ArithProgression: no such type on this device");
  hostsim::Fill("ArithProgression", dst, static_cast<uint32_t>(count), HOSTSIM_HERE,
                [first, step](uint32_t i) { return static_cast<T>(first + static_cast<T>(i) * step); });
}

}  // namespace AscendC
