// Bit masks: compare, select, gather.
#pragma once

#include "hostsim/vector.h"

namespace hostsim {

template <typename T>
bool Compared(T a, T b, AscendC::CMPMODE mode) {
  using AscendC::CMPMODE;
  switch (mode) {
    case CMPMODE::LT: return a < b;
    case CMPMODE::GT: return a > b;
    case CMPMODE::EQ: return a == b;
    case CMPMODE::LE: return a <= b;
    case CMPMODE::GE: return a >= b;
    default: return a != b;
  }
}

inline bool Bit(const uint8_t *mask, uint64_t i) { return mask[i / 8] >> (i % 8) & 1; }

// Bit i of the mask says how element i compares.
template <typename T, typename U, typename F>
void CompareInto(const char *name, const AscendC::LocalTensor<U> &dst, const AscendC::LocalTensor<T> &a,
                 const AscendC::LocalTensor<T> *b, AscendC::CMPMODE mode, uint32_t count, Site site, F other) {
  static_assert(kOneOf<T, half, float, int32_t>, "Compare: no such type on this device");
  static_assert(kOneOf<U, int8_t, uint8_t>, "Compare: the mask is of bytes");
  const uint64_t bytes = uint64_t{count} * sizeof(T), mask = (count + 7) / 8;
  Instruction op(Pipe::kVector, name, site);
  op.Cost(bytes, (bytes + 255) / 256);
  if (!op.Check(bytes % 256 == 0, "alignment", "the compared elements are not a multiple of 256 bytes")) return;
  const bool ordered = !std::is_same_v<T, int32_t> || mode == AscendC::CMPMODE::EQ;
  if (!op.Check(ordered, "type", "int32_t compares with EQ only")) return;
  if (count == 0 || !op.Read(a.Memory(), bytes) || (b && !op.Read(b->Memory(), bytes))) return;
  if (!op.WriteApart(dst.Memory(), mask)) return;
  const bool all = op.Defined(a.Memory(), bytes) && (!b || op.Defined(b->Memory(), bytes));
  uint8_t *d = reinterpret_cast<uint8_t *>(dst.Data());
  const T *x = a.Data();
  for (uint32_t i = 0; i < count; i += 8) {
    uint8_t bits = 0;
    for (uint32_t k = 0; k < 8; ++k) bits |= static_cast<uint8_t>(Compared(x[i + k], other(i + k), mode) << k);
    d[i / 8] = bits;
  }
  if (all) return op.Define(dst.Memory(), mask);
  for (uint32_t i = 0; i < count; i += 8) {
    uint8_t known = 0;
    for (uint32_t k = i; k < i + 8; ++k) {
      const bool both = op.Defined(a.Memory(k), sizeof(T)) && (!b || op.Defined(b->Memory(k), sizeof(T)));
      known |= static_cast<uint8_t>(both << (k - i));
    }
    op.DefineBits(dst.Memory() + i / 8, known);
  }
}

template <typename T, typename U, typename F>
void SelectInto(const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<U> &mask,
                const AscendC::LocalTensor<T> &a, const AscendC::LocalTensor<T> *b, uint32_t count, Site site,
                F other) {
  static_assert(kOneOf<T, half, float>, "Select: no such type on this device");
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  UseScratchUb(site);
  Instruction op(Pipe::kVector, "Select", site);
  op.Cost(bytes, (bytes + 255) / 256);
  const Ub bits = mask.Memory();
  if (count == 0 || !op.Read(bits, (count + 7) / 8) || !op.Read(a.Memory(), bytes)) return;
  const bool apart = bits.at + (count + 7) / 8 <= dst.Memory().at || bits.at >= dst.Memory().at + bytes;
  if (!op.Check(apart, "overlap", "the target overlaps the mask")) return;
  if ((b && !op.Read(b->Memory(), bytes)) || !op.Write(dst.Memory(), bytes)) return;
  const bool all = op.DefinedBits(bits, 0, count) && op.Defined(a.Memory(), bytes) &&
                   (!b || op.Defined(b->Memory(), bytes));
  const uint8_t *m = UbData(bits);
  Mark(op, dst.Memory(), sizeof(T), count, all, [&](uint64_t i) {
    const auto at = static_cast<uint32_t>(i);
    if (!op.DefinedBits(bits, i, i + 1)) return false;
    return Bit(m, i) ? op.Defined(a.Memory(at), sizeof(T)) : !b || op.Defined(b->Memory(at), sizeof(T));
  });
  T *d = dst.Data();
  const T *x = a.Data();
  for (uint32_t i = 0; i < count; ++i) {
    // By bytes: a float may be an integer in disguise.
    const T value = Bit(m, i) ? x[i] : other(i);
    std::memcpy(d + i, &value, sizeof(T));
  }
}

}  // namespace hostsim

namespace AscendC {

template <typename T, typename U>
inline void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode,
                    uint32_t count, HOSTSIM_SITE) {
  hostsim::CompareInto("Compare", dst, src0, &src1, mode, count, HOSTSIM_HERE,
                       [&](uint32_t i) { return src1.Data()[i]; });
}

template <typename T, typename U>
inline void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T scalar, CMPMODE mode,
                          uint32_t count, HOSTSIM_SITE) {
  hostsim::CompareInto<T, U>("CompareScalar", dst, src0, nullptr, mode, count, HOSTSIM_HERE,
                             [&](uint32_t) { return scalar; });
}

template <typename T, typename U>
inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0,
                   const LocalTensor<T> &src1, SELMODE mode, uint32_t count, HOSTSIM_SITE) {
  if (mode != SELMODE::VSEL_TENSOR_TENSOR_MODE) {
    hostsim::Report("type", "Select: of two tensors, the model has VSEL_TENSOR_TENSOR_MODE only", HOSTSIM_HERE);
  }
  hostsim::SelectInto(dst, mask, src0, &src1, count, HOSTSIM_HERE, [&](uint32_t i) { return src1.Data()[i]; });
}

template <typename T, typename U>
inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, T scalar,
                   SELMODE mode, uint32_t count, HOSTSIM_SITE) {
  if (mode != SELMODE::VSEL_TENSOR_SCALAR_MODE) {
    hostsim::Report("type", "Select: of a tensor and a scalar, the mode is VSEL_TENSOR_SCALAR_MODE", HOSTSIM_HERE);
  }
  hostsim::SelectInto<T, U>(dst, mask, src0, nullptr, count, HOSTSIM_HERE, [&](uint32_t) { return scalar; });
}

}  // namespace AscendC
