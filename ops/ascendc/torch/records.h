// Rows of records as CANN sees them: bytes, at one distance from each other.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace tierkv {

// Elements from one row [.., width] to the next; -1 if there is no such number.
inline std::int64_t row_stride(const at::Tensor& rows) {
  const std::int64_t width = rows.size(-1);
  if (rows.dim() == 0 || (width > 1 && rows.stride(-1) != 1)) return -1;
  std::int64_t stride = -1, count = 1;
  for (std::int64_t dim = rows.dim() - 2; dim >= 0; --dim) {
    if (rows.size(dim) == 1) continue;
    if (stride < 0) stride = rows.stride(dim);
    if (rows.stride(dim) != stride * count) return -1;
    count *= rows.size(dim);
  }
  if (stride < 0) return width;
  return stride >= width ? stride : -1;
}

inline std::int64_t row_bytes(const at::Tensor& rows) {
  return rows.size(-1) * static_cast<std::int64_t>(rows.element_size());
}

// Sizes in bytes of rows that lie `stride` elements apart.
inline std::vector<std::int64_t> byte_sizes(const at::Tensor& rows, std::int64_t stride) {
  std::vector<std::int64_t> sizes = rows.sizes().vec();
  sizes.back() = stride * static_cast<std::int64_t>(rows.element_size());
  return sizes;
}

}  // namespace tierkv
