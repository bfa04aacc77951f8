// Views of global memory and of the unified buffer.
#pragma once

#include <cstring>

#include "hostsim/enums.h"
#include "hostsim/numbers.h"
#include "hostsim/runtime.h"

namespace AscendC {

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;

  // Without a size the tensor's own end is the limit.
  void SetGlobalBuffer(T *base, uint64_t elements = UINT64_MAX, HOSTSIM_SITE) {
    const bool whole = elements == UINT64_MAX;
    size_ = whole ? 0 : elements;
    const uint64_t bytes = whole ? UINT64_MAX : elements * sizeof(T);
    gm_ = hostsim::GlobalMemory(reinterpret_cast<uint8_t *>(base), bytes, HOSTSIM_HERE);
  }

  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor moved = *this;
    moved.gm_ = gm_ + static_cast<int64_t>(offset * sizeof(T));
    return moved;
  }
  T GetValue(uint64_t index, HOSTSIM_SITE) const {
    T value{};
    const uint8_t *at = hostsim::ScalarRead(Memory(index), sizeof(T), HOSTSIM_HERE);
    if (at) std::memcpy(&value, at, sizeof(T));
    return value;
  }
  void SetValue(uint64_t index, T value, HOSTSIM_SITE) const {
    uint8_t *at = hostsim::ScalarWrite(Memory(index), sizeof(T), HOSTSIM_HERE);
    if (at) std::memcpy(at, &value, sizeof(T));
  }
  const T *GetPhyAddr() const { return reinterpret_cast<const T *>(gm_.at); }
  const T *GetPhyAddr(uint64_t offset) const { return GetPhyAddr() + offset; }
  uint64_t GetSize() const { return size_; }

  hostsim::Gm Memory(uint64_t index = 0) const { return gm_ + static_cast<int64_t>(index * sizeof(T)); }

 private:
  hostsim::Gm gm_;
  uint64_t size_ = 0;
};

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;

  LocalTensor() = default;
  LocalTensor(const hostsim::Ub &ub, uint32_t elements) : ub_(ub), size_(elements) {}

  LocalTensor operator[](uint32_t offset) const {
    const uint32_t rest = offset < size_ ? size_ - offset : 0;
    return {ub_ + uint64_t{offset} * sizeof(T), rest};
  }
  T GetValue(uint32_t index, HOSTSIM_SITE) const {
    T value{};
    const uint8_t *at = hostsim::ScalarRead(Memory(index), sizeof(T), HOSTSIM_HERE);
    if (at) std::memcpy(&value, at, sizeof(T));
    return value;
  }
  void SetValue(uint32_t index, T value, HOSTSIM_SITE) const {
    uint8_t *at = hostsim::ScalarWrite(Memory(index), sizeof(T), HOSTSIM_HERE);
    if (at) std::memcpy(at, &value, sizeof(T));
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    return {ub_, static_cast<uint32_t>(uint64_t{size_} * sizeof(T) / sizeof(U))};
  }
  uint32_t GetSize() const { return size_; }
  uint32_t GetLength() const { return size_ * sizeof(T); }
  void SetSize(uint32_t elements) { size_ = elements; }

  hostsim::Ub Memory(uint32_t index = 0) const { return ub_ + uint64_t{index} * sizeof(T); }
  // Only after an instruction's operands have been accepted.
  T *Data() const { return reinterpret_cast<T *>(hostsim::UbData(ub_)); }

 private:
  hostsim::Ub ub_;
  uint32_t size_ = 0;
};

}  // namespace AscendC
