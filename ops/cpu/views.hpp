// Plain views of memory that somebody else owns. Kernels take these and nothing of Python or torch.
#pragma once

#include <cstdint>
#include <cstring>

namespace tierkv {

// Elements [rows, columns] of which only the columns are contiguous.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t stride = 0;  // elements from one row to the next
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  T* row(std::int64_t i) const { return data + i * stride; }
};

// Rows of bytes [outer, inner, width], strides in bytes. Zero `outer` means one block for all.
struct Rows {
  std::uint8_t* data = nullptr;
  std::int64_t outer = 0;
  std::int64_t inner = 0;

  std::uint8_t* at(std::int64_t i, std::int64_t j) const { return data + i * outer + j * inner; }
};

// A policy's slot_of [lanes, positions]: int16 or, if `wide`, int32.
struct SlotTable {
  void* data = nullptr;
  bool wide = false;
  std::int64_t stride = 0;  // elements
  std::int64_t lanes = 0;
  std::int64_t positions = 0;

  template <class Slot>
  Slot* row(std::int64_t lane) const {
    return static_cast<Slot*>(data) + lane * stride;
  }
};

// More parts than this in one call go to the reference.
constexpr int kMaxParts = 8;

inline void fill_minus_one(std::int32_t* to, std::int64_t count) {
  if (count > 0) std::memset(to, 0xff, count * sizeof(std::int32_t));  // usually nothing is left
}

// Whether every row is padding (-1) or names one of `count` lanes.
inline bool lanes_known(const std::int32_t* lanes, std::int64_t rows, std::int64_t count) {
  for (std::int64_t i = 0; i < rows; ++i) {
    if (lanes[i] < -1 || lanes[i] >= count) return false;
  }
  return true;
}

}  // namespace tierkv
