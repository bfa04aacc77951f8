// Zeros for rows that nothing is copied to.
#pragma once

#include "vector.h"

namespace tierkv {

// Writes zeros; stretches that follow each other share their bursts.
class RowEraser {
 public:
  // Takes `bytes` of UB; none of its bursts is longer.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t bytes) {
    bytes_ = bytes;
    const auto words = Take<int32_t>(pipe, bytes / sizeof(int32_t));
    AscendC::Duplicate(words, int32_t{0}, bytes / sizeof(int32_t));
    zeros_ = words.ReinterpretCast<uint8_t>();
    Fence<AscendC::HardEvent::V_MTE3>();
  }

  __aicore__ inline void Put(__gm__ uint8_t *to, uint64_t bytes) {
    if (to != end_) {
      Flush();
      from_ = to;
    }
    end_ = to + bytes;
  }

  __aicore__ inline void Flush() {
    while (from_ < end_) {
      const uint64_t left = end_ - from_;
      const auto bytes = static_cast<uint32_t>(left < bytes_ ? left : bytes_);
      Store(from_, zeros_, bytes);
      from_ += bytes;
    }
  }

 private:
  AscendC::LocalTensor<uint8_t> zeros_;
  uint32_t bytes_ = 0;
  __gm__ uint8_t *from_ = nullptr, *end_ = nullptr;
};

}  // namespace tierkv
