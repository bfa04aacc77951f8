// Copies between global memory (GM) and the unified buffer (UB).
#pragma once

#include <cstring>

#include "hostsim/tensor.h"

namespace hostsim {

constexpr uint64_t RoundToCell(uint64_t bytes) { return (bytes + kCell - 1) / kCell * kCell; }

// `count` blocks of `bytes`; each side advances by its own step.
struct Blocks {
  uint64_t count, bytes;
  int64_t gm_step, ub_step;

  bool Empty() const { return count == 0 || bytes == 0; }
};

inline void Load(const Ub &target, const Gm &source, const Blocks &blocks, const char *name, Site site) {
  Instruction copy(Pipe::kMte2, name, site);
  copy.Cost(blocks.count * blocks.bytes, blocks.count);
  for (uint64_t i = 0; i < blocks.count && !blocks.Empty(); ++i) {
    const Ub ub = target + i * blocks.ub_step;
    const Gm gm = source + static_cast<int64_t>(i) * blocks.gm_step;
    if (!copy.Read(gm, blocks.bytes) || !copy.Write(ub, RoundToCell(blocks.bytes))) return;
    std::memcpy(UbData(ub), GmData(gm), blocks.bytes);
    copy.Follow(ub, blocks.bytes, gm);
    const uint64_t rest = RoundToCell(blocks.bytes) - blocks.bytes;
    if (rest) copy.Undefine(ub + blocks.bytes, rest);
  }
}

inline void Store(const Gm &target, const Ub &source, const Blocks &blocks, const char *name, Site site) {
  Instruction copy(Pipe::kMte3, name, site);
  copy.Cost(blocks.count * blocks.bytes, blocks.count);
  for (uint64_t i = 0; i < blocks.count && !blocks.Empty(); ++i) {
    const Ub ub = source + i * blocks.ub_step;
    const Gm gm = target + static_cast<int64_t>(i) * blocks.gm_step;
    if (!copy.Read(ub, blocks.bytes) || !copy.Write(gm, blocks.bytes)) return;
    copy.Require(ub, blocks.bytes);
    std::memcpy(GmData(gm), UbData(ub), blocks.bytes);
  }
}

// The pattern that fills what DataCopyPad appends to, or puts before, each block.
template <typename T>
void LoadPadded(const Ub &target, const Gm &source, const Blocks &blocks,
                const AscendC::DataCopyPadExtParams<T> &pad, Site site) {
  const uint64_t left = pad.leftPadding * sizeof(T), right = pad.rightPadding * sizeof(T);
  const uint64_t all = RoundToCell(left + blocks.bytes + right);
  Instruction copy(Pipe::kMte2, "DataCopyPad", site);
  if (!copy.Check(left <= kCell && right <= kCell, "alignment", "padding of more than 32 bytes")) return;
  copy.Cost(blocks.count * blocks.bytes, blocks.count);
  for (uint64_t i = 0; i < blocks.count && !blocks.Empty(); ++i) {
    const Ub ub = target + i * (all + static_cast<uint64_t>(blocks.ub_step));
    const Gm gm = source + static_cast<int64_t>(i) * blocks.gm_step;
    if (!copy.Read(gm, blocks.bytes) || !copy.Write(ub, all)) return;
    auto *bytes = UbData(ub);
    for (uint64_t k = 0; k < all / sizeof(T); ++k) std::memcpy(bytes + k * sizeof(T), &pad.paddingValue, sizeof(T));
    std::memcpy(bytes + left, GmData(gm), blocks.bytes);
    copy.Undefine(ub, all);
    copy.Define(ub, left + blocks.bytes + right);
    copy.Follow(ub + left, blocks.bytes, gm);
  }
}

inline void CheckPadLimits(uint32_t count, uint32_t bytes, Site site) {
  if (count < 1 || count > 4095) Report("alignment", "DataCopyPad: blockCount is not in 1..4095", site);
  if (bytes < 1 || bytes >= 2u << 20) Report("alignment", "DataCopyPad: blockLen is not in 1..2097151", site);
}

}  // namespace hostsim

namespace AscendC {

template <typename T>
inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p, HOSTSIM_SITE) {
  const int64_t bytes = int64_t{p.blockLen} * hostsim::kCell;
  hostsim::Load(dst.Memory(), src.Memory(),
                {p.blockCount, p.blockLen * uint64_t{hostsim::kCell}, bytes + p.srcStride * int64_t{hostsim::kCell},
                 bytes + p.dstStride * int64_t{hostsim::kCell}},
                "DataCopy", HOSTSIM_HERE);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, HOSTSIM_SITE) {
  const int64_t bytes = int64_t{p.blockLen} * hostsim::kCell;
  hostsim::Store(dst.Memory(), src.Memory(),
                 {p.blockCount, p.blockLen * uint64_t{hostsim::kCell}, bytes + p.dstStride * int64_t{hostsim::kCell},
                  bytes + p.srcStride * int64_t{hostsim::kCell}},
                 "DataCopy", HOSTSIM_HERE);
}

template <typename T>
inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count, HOSTSIM_SITE) {
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  if (bytes % hostsim::kCell) hostsim::Report("alignment", "DataCopy: not a multiple of 32 bytes", HOSTSIM_HERE);
  hostsim::Load(dst.Memory(), src.Memory(), {1, bytes, 0, 0}, "DataCopy", HOSTSIM_HERE);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count, HOSTSIM_SITE) {
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  if (bytes % hostsim::kCell) hostsim::Report("alignment", "DataCopy: not a multiple of 32 bytes", HOSTSIM_HERE);
  hostsim::Store(dst.Memory(), src.Memory(), {1, bytes, 0, 0}, "DataCopy", HOSTSIM_HERE);
}

// Within UB it is the vector pipe that copies.
template <typename T>
inline void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, HOSTSIM_SITE) {
  hostsim::Instruction copy(hostsim::Pipe::kVector, "DataCopy", HOSTSIM_HERE);
  const uint64_t bytes = p.blockLen * uint64_t{hostsim::kCell};
  copy.Cost(p.blockCount * bytes, p.blockCount);
  for (uint64_t i = 0; i < p.blockCount && bytes; ++i) {
    const hostsim::Ub from = src.Memory() + i * (bytes + p.srcStride * hostsim::kCell);
    const hostsim::Ub to = dst.Memory() + i * (bytes + p.dstStride * hostsim::kCell);
    if (!copy.Read(from, bytes) || !copy.Write(to, bytes)) return;
    std::memmove(hostsim::UbData(to), hostsim::UbData(from), bytes);
    copy.Follow(to, bytes, from, from);
  }
}

template <typename T>
inline void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count, HOSTSIM_SITE) {
  const uint64_t bytes = uint64_t{count} * sizeof(T);
  if (bytes % hostsim::kCell) hostsim::Report("alignment", "DataCopy: not a multiple of 32 bytes", HOSTSIM_HERE);
  DataCopy(dst, src, DataCopyParams(1, static_cast<uint16_t>(bytes / hostsim::kCell), 0, 0), site_line, site_file);
}

template <typename T>
inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &p,
                        const DataCopyPadExtParams<T> &pad, HOSTSIM_SITE) {
  hostsim::CheckPadLimits(p.blockCount, p.blockLen, HOSTSIM_HERE);
  const int64_t gm_step = int64_t{p.blockLen} + p.srcStride, gap = int64_t{p.dstStride} * hostsim::kCell;
  if (pad.isPad) {
    hostsim::LoadPadded(dst.Memory(), src.Memory(), {p.blockCount, p.blockLen, gm_step, gap}, pad, HOSTSIM_HERE);
  } else {
    const auto ub_step = static_cast<int64_t>(hostsim::RoundToCell(p.blockLen)) + gap;
    hostsim::Load(dst.Memory(), src.Memory(), {p.blockCount, p.blockLen, gm_step, ub_step}, "DataCopyPad",
                  HOSTSIM_HERE);
  }
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &p,
                        HOSTSIM_SITE) {
  hostsim::CheckPadLimits(p.blockCount, p.blockLen, HOSTSIM_HERE);
  const auto ub_step = static_cast<int64_t>(hostsim::RoundToCell(p.blockLen)) + int64_t{p.srcStride} * hostsim::kCell;
  hostsim::Store(dst.Memory(), src.Memory(), {p.blockCount, p.blockLen, int64_t{p.blockLen} + p.dstStride, ub_step},
                 "DataCopyPad", HOSTSIM_HERE);
}

}  // namespace AscendC
