// Order between pipes and between cores, and what identifies a core.
#pragma once

#include "hostsim/enums.h"
#include "hostsim/runtime.h"
#include "hostsim/tensor.h"

namespace AscendC {

template <HardEvent event>
inline void SetFlag(int32_t id, HOSTSIM_SITE) {
  hostsim::SetEvent(static_cast<int>(event), id, HOSTSIM_HERE);
}

template <HardEvent event>
inline void WaitFlag(int32_t id, HOSTSIM_SITE) {
  hostsim::WaitEvent(static_cast<int>(event), id, HOSTSIM_HERE);
}

template <pipe_t pipe>
inline void PipeBarrier(HOSTSIM_SITE) {
  static_assert(pipe != PIPE_S, "the scalar pipe has no barrier");
  hostsim::Barrier(pipe, pipe == PIPE_ALL, HOSTSIM_HERE);
}

template <bool isAIVOnly = true>
inline void SyncAll(HOSTSIM_SITE) {
  static_assert(isAIVOnly, "the model has vector cores only");
  hostsim::SyncCores(HOSTSIM_HERE);
}

template <typename T, CacheLine line, DcciDst target = DcciDst::CACHELINE_OUT>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T> &tensor, HOSTSIM_SITE) {
  hostsim::CleanCache(tensor.Memory(), line == CacheLine::ENTIRE_DATA_CACHE, HOSTSIM_HERE);
}

inline int64_t GetBlockIdx() { return hostsim::BlockIndex(); }
inline int64_t GetBlockNum() { return hostsim::BlockCount(); }

// Place of the lowest bit that is `value`, -1 if there is none.
template <int value>
inline int64_t ScalarGetSFFValue(uint64_t bits) {
  if (value == 0) bits = ~bits;
  hostsim::CountScalar(1);
  return bits ? __builtin_ctzll(bits) : -1;
}

inline constexpr int64_t GetSubBlockNum() { return 1; }

}  // namespace AscendC
