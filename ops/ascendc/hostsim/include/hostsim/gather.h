// Gathers by offset and by mask, and reductions.
#pragma once

#include "hostsim/select.h"

namespace hostsim {

// The mask of GatherMask: one of seven patterns, or the bits of a tensor.
struct Chosen {
  uint8_t pattern;
  const uint8_t *bits;

  bool operator()(uint64_t i, uint64_t repeat_bits) const {
    switch (pattern) {
      case 0: return Bit(bits, repeat_bits + i);
      case 1: return i % 2 == 0;
      case 2: return i % 2 == 1;
      case 7: return true;
      default: return i % 4 == pattern - 3u;
    }
  }
};

// Elements of each repeat, in order: `visit(repeat, index in the repeat, element of src)`.
template <typename T, typename F>
void ForMasked(const AscendC::GatherMaskParams &p, bool counter, uint32_t mask, F visit) {
  const uint64_t each = counter ? mask : 256 / sizeof(T), block = kCell / sizeof(T);
  for (uint64_t repeat = 0; repeat < p.repeatTimes; ++repeat) {
    for (uint64_t i = 0; i < each; ++i) {
      const uint64_t at = (repeat * p.src0RepeatStride + i / block * p.src0BlockStride) * block + i % block;
      visit(repeat, i, at);
    }
  }
}

template <typename T>
void GatherMasked(const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src, Chosen chosen, const Ub *bits,
                  bool counter, uint32_t mask, const AscendC::GatherMaskParams &p, uint64_t &kept, Site site) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "GatherMask: no such type on this device");
  Instruction op(Pipe::kVector, "GatherMask", site);
  const uint64_t each = counter ? mask : 256 / sizeof(T);
  kept = 0;
  op.Cost(each * p.repeatTimes * sizeof(T), (each * sizeof(T) + 255) / 256 * p.repeatTimes);
  if (!op.Check(p.repeatTimes > 0, "type", "repeatTimes is 0") || each == 0) return;
  const uint64_t block = kCell / sizeof(T);
  const uint64_t span = (p.repeatTimes - 1) * uint64_t{p.src0RepeatStride} * block +
                        (each - 1) / block * p.src0BlockStride * block + (each - 1) % block + 1;
  if (!op.Read(src.Memory(), span * sizeof(T))) return;
  const uint64_t step = p.src1RepeatStride * uint64_t{kCell} * 8;  // bits from repeat to repeat
  if (bits) {
    const uint64_t used = (p.repeatTimes - 1) * step + each;
    if (!op.Read(*bits, (used + 7) / 8)) return;
    op.RequireBits(*bits, used);
    chosen.bits = UbData(*bits);
  }
  uint64_t count = 0;
  ForMasked<T>(p, counter, mask, [&](uint64_t r, uint64_t i, uint64_t) { count += chosen(i, r * step); });
  const bool apart = !bits || dst.Memory().at >= bits->at + (each * p.repeatTimes + 7) / 8 ||
                     dst.Memory().at + count * sizeof(T) <= bits->at;
  if (!op.Check(apart, "overlap", "the target overlaps the mask")) return;
  if (count == 0 || !op.Write(dst.Memory(), count * sizeof(T))) return;
  const bool all = op.Defined(src.Memory(), span * sizeof(T));
  T *d = dst.Data();
  const T *s = src.Data();
  ForMasked<T>(p, counter, mask, [&](uint64_t r, uint64_t i, uint64_t at) {
    if (!chosen(i, r * step)) return;
    const auto to = static_cast<uint32_t>(kept++);
    const bool known = all || op.Defined(src.Memory(static_cast<uint32_t>(at)), sizeof(T));
    std::memcpy(d + to, s + at, sizeof(T));
    if (!known) op.Undefine(dst.Memory(to), sizeof(T));
    if (known && !all) op.Define(dst.Memory(to), sizeof(T));
  });
  if (all) op.Define(dst.Memory(), count * sizeof(T));
}

// `pick(best, value)`: whether the value replaces the best so far.
template <typename T, typename F>
void Extreme(const char *name, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src,
             const AscendC::LocalTensor<T> &work, int32_t count, bool index, Site site, F pick) {
  static_assert(kOneOf<T, half, float>, "reductions: no such type on this device");
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T), repeats = (bytes + 255) / 256;
  Instruction op(Pipe::kVector, name, site);
  op.Cost(bytes, repeats);
  if (!op.Check(count > 0, "bounds", "nothing to reduce") || !op.Read(src.Memory(), bytes)) return;
  if (!op.WriteApart(work.Memory(), (repeats * 2 * sizeof(T) + kCell - 1) / kCell * kCell)) return;
  if (!op.Write(dst.Memory(), (index ? 2 : 1) * sizeof(T))) return;
  op.Require(src.Memory(), bytes);
  const T *s = src.Data();
  uint32_t best = 0;
  for (int32_t i = 1; i < count; ++i) {
    if (pick(s[best], s[i])) best = static_cast<uint32_t>(i);
  }
  const T value = s[best];
  op.Undefine(work.Memory(), repeats * 2 * sizeof(T));
  std::memcpy(dst.Data(), &value, sizeof(T));
  if (index) std::memcpy(dst.Data() + 1, &best, sizeof(T));
  op.Define(dst.Memory(), (index ? 2 : 1) * sizeof(T));
}

}  // namespace hostsim

namespace AscendC {

// dst[i] = the element `base + offset[i]` bytes into src.
template <typename T>
inline void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint32_t> &offset,
                   const uint32_t base, const uint32_t count, HOSTSIM_SITE) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather: no such type on this device");
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  hostsim::Instruction op(hostsim::Pipe::kVector, "Gather", HOSTSIM_HERE);
  op.Cost(bytes, (bytes + 255) / 256);
  if (count == 0 || !op.Read(offset.Memory(), uint64_t{count} * 4) || !op.Write(dst.Memory(), bytes)) return;
  op.Require(offset.Memory(), uint64_t{count} * 4);
  const uint32_t *offsets = offset.Data();
  T *d = dst.Data();
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t at = uint64_t{base} + offsets[i];
    if (!op.Check(at < hostsim::kUbBytes, "bounds", "an offset past UB")) continue;
    const hostsim::Ub from = src.Memory() + at;
    const bool apart = from.at + sizeof(T) <= dst.Memory().at || from.at >= dst.Memory().at + bytes;
    if (!op.Check(apart, "overlap", "the target is gathered from") || !op.ReadElement(from, sizeof(T))) continue;
    const bool known = op.Defined(from, sizeof(T));
    std::memcpy(d + i, hostsim::UbData(from), sizeof(T));
    known ? op.Define(dst.Memory(i), sizeof(T)) : op.Undefine(dst.Memory(i), sizeof(T));
  }
}

template <typename T, typename U>
inline void GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<U> &src1Pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams &params, uint64_t &rsvdCnt,
                       HOSTSIM_SITE) {
  static_assert(sizeof(U) == sizeof(T) && std::is_unsigned_v<U>, "GatherMask: the mask's type does not fit the data");
  const hostsim::Ub bits = src1Pattern.Memory();
  hostsim::GatherMasked(dst, src0, {0, nullptr}, &bits, reduceMode, mask, params, rsvdCnt, HOSTSIM_HERE);
}

template <typename T>
inline void GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const uint8_t src1Pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams &params, uint64_t &rsvdCnt,
                       HOSTSIM_SITE) {
  if (src1Pattern < 1 || src1Pattern > 7) hostsim::Report("type", "GatherMask: no such pattern", HOSTSIM_HERE);
  hostsim::GatherMasked(dst, src0, {src1Pattern, nullptr}, nullptr, reduceMode, mask, params, rsvdCnt, HOSTSIM_HERE);
}

template <typename T>
inline void ReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work,
                      const int32_t count, bool calIndex = false, HOSTSIM_SITE) {
  hostsim::Extreme("ReduceMax", dst, src, work, count, calIndex, HOSTSIM_HERE, [](T best, T v) { return v > best; });
}

template <typename T>
inline void ReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work,
                      const int32_t count, bool calIndex = false, HOSTSIM_SITE) {
  hostsim::Extreme("ReduceMin", dst, src, work, count, calIndex, HOSTSIM_HERE, [](T best, T v) { return v < best; });
}

// The device adds in a tree: sums that are not exact may differ from it.
template <typename T>
inline void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work,
                      const int32_t count, HOSTSIM_SITE) {
  static_assert(hostsim::kOneOf<T, half, float>, "ReduceSum: no such type on this device");
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T), repeats = (bytes + 255) / 256;
  hostsim::Instruction op(hostsim::Pipe::kVector, "ReduceSum", HOSTSIM_HERE);
  op.Cost(bytes, repeats);
  if (!op.Check(count > 0, "bounds", "nothing to reduce") || !op.Read(src.Memory(), bytes)) return;
  const uint64_t used = (repeats * sizeof(T) + hostsim::kCell - 1) / hostsim::kCell * hostsim::kCell;
  if (!op.WriteApart(work.Memory(), used) || !op.Write(dst.Memory(), sizeof(T))) return;
  op.Require(src.Memory(), bytes);
  float sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += static_cast<float>(src.Data()[i]);
  op.Undefine(work.Memory(), used);
  const T value = T(sum);
  std::memcpy(dst.Data(), &value, sizeof(T));
  op.Define(dst.Memory(), sizeof(T));
}

}  // namespace AscendC
