// Copy, clear and prefetch one row of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stream.hpp"

namespace tierkv {

// Rows of pools and backing come from DRAM at random. Into L2, not L1: a row is 18 lines, so eight
// of them would flush a third of L1 before they are read.
inline void prefetch_row(const std::uint8_t* row, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(row + i, 0, 2);
}

// Both stream, see there; whoever hands the rows to another thread calls stream_fence first.
inline void copy_row(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const std::size_t done = stream_copy(to, from, bytes);
  std::memcpy(to + done, from + done, bytes - done);
}

inline void zero_row(std::uint8_t* to, std::size_t bytes) {
  const std::size_t done = stream_zero(to, bytes);
  std::memset(to + done, 0, bytes - done);
}

}  // namespace tierkv
