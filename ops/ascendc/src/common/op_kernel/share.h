// What this core does, and tables in UB.
#pragma once

#include "vector.h"

namespace tierkv {

struct Range {
  uint32_t first, last;  // `last` not included
};

// This core's part of work that op_host's Shares split.
__aicore__ inline Range MyShare(uint32_t each, uint32_t more) {
  const auto core = static_cast<uint32_t>(AscendC::GetBlockIdx());
  const uint32_t first = core * each + (core < more ? core : more);
  return {first, first + each + (core < more ? 1 : 0)};
}

__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

// A new buffer that Load may fill with `count` values.
template <typename T>
__aicore__ inline AscendC::LocalTensor<T> TakeBlocks(AscendC::TPipe *pipe, uint32_t count) {
  return Take<T>(pipe, RoundUp(count, kBlockBytes / sizeof(T)));
}

// One value, of what nobody writes during the launch.
template <typename T>
__aicore__ inline T ReadGm(__gm__ T *values, uint32_t at) {
  AscendC::GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(values);
  return tensor.GetValue(at);
}

// Brings `count` values from any place of GM, and `pad` behind them up to a multiple of 32 bytes.
template <typename T>
__aicore__ inline void Load(const AscendC::LocalTensor<T> &to, __gm__ T *from, uint32_t count, T pad = 0) {
  const uint32_t bytes = count * sizeof(T);
  const auto rest = static_cast<uint8_t>((RoundUp(bytes, kBlockBytes) - bytes) / sizeof(T));
  AscendC::GlobalTensor<T> source;
  source.SetGlobalBuffer(from);
  AscendC::DataCopyPad(to, source, AscendC::DataCopyExtParams{1, bytes, 0, 0, 0},
                       AscendC::DataCopyPadExtParams<T>{rest > 0, 0, rest, pad});
}

}  // namespace tierkv
