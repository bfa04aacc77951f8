// Blocks of the unified buffer.
#pragma once

#include <algorithm>

#include "machine.h"

namespace hostsim {

// Mask of the bytes of cell `cell` that lie in [at, end).
inline uint32_t Mask(uint64_t cell, uint64_t at, uint64_t end) {
  const uint64_t from = std::max(at, cell * kCell) % kCell;
  const uint64_t to = std::min(end, (cell + 1) * kCell) - cell * kCell;
  return static_cast<uint32_t>((uint64_t{1} << to) - (uint64_t{1} << from));
}

template <typename F>
void ForMasks(const Ub &ub, uint64_t bytes, F visit) {
  const uint64_t end = ub.at + bytes;
  for (uint64_t i = ub.at / kCell; i * kCell < end; ++i) visit(core->cells[i].known, Mask(i, ub.at, end), i);
}

// What somebody has written.
void MarkKnown(const Ub &ub, uint64_t bytes);

}  // namespace hostsim
