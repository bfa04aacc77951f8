// Buffers of the unified buffer, and queues that carry their own flags.
#pragma once

#include "hostsim/sync.h"
#include "hostsim/tensor.h"

namespace AscendC {

template <TPosition position = TPosition::VECCALC>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get() const {
    return {ub_, (ub_.end - ub_.begin) / static_cast<uint32_t>(sizeof(T))};
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t elements) const {
    hostsim::Ub ub = ub_;
    const uint64_t end = ub.begin + uint64_t{elements} * sizeof(T);
    if (end < ub.end) ub.end = static_cast<uint32_t>(end);
    return {ub, elements};
  }
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t bytes) const {
    return {ub_ + bytes, elements};
  }

 private:
  friend class TPipe;
  hostsim::Ub ub_;
};

template <TPosition source, TPosition target, int32_t depth>
class TQueBind {
 public:
  template <typename T>
  LocalTensor<T> AllocTensor(HOSTSIM_SITE) {
    return Whole<T>(hostsim::QueueAlloc(queue_, HOSTSIM_HERE));
  }
  template <typename T>
  bool EnQue(const LocalTensor<T> &tensor, HOSTSIM_SITE) {
    hostsim::QueueEnque(queue_, tensor.Memory(), HOSTSIM_HERE);
    return true;
  }
  template <typename T>
  LocalTensor<T> DeQue(HOSTSIM_SITE) {
    return Whole<T>(hostsim::QueueDeque(queue_, HOSTSIM_HERE));
  }
  template <typename T>
  void FreeTensor(const LocalTensor<T> &tensor, HOSTSIM_SITE) {
    hostsim::QueueFree(queue_, tensor.Memory(), HOSTSIM_HERE);
  }
  bool HasTensorInQue() const { return hostsim::QueueCount(queue_, true) > 0; }
  bool VacantInQue() const { return hostsim::QueueCount(queue_, true) < depth; }
  int32_t GetTensorCountInQue() const { return hostsim::QueueCount(queue_, true); }
  bool HasIdleBuffer() const { return hostsim::QueueCount(queue_, false) > 0; }

 private:
  friend class TPipe;

  // Events by which one end of the queue tells the other that a buffer is full, or free again.
  static constexpr HardEvent Full() {
    if (source == TPosition::VECIN && target == TPosition::VECOUT) return HardEvent::MTE2_MTE3;
    return target == TPosition::GM ? HardEvent::V_MTE3 : HardEvent::MTE2_V;
  }
  static constexpr HardEvent Free() {
    if (source == TPosition::VECIN && target == TPosition::VECOUT) return HardEvent::MTE3_MTE2;
    return target == TPosition::GM ? HardEvent::MTE3_V : HardEvent::V_MTE2;
  }
  template <typename T>
  static LocalTensor<T> Whole(const hostsim::Ub &ub) {
    return {ub, (ub.end - ub.begin) / static_cast<uint32_t>(sizeof(T))};
  }

  int queue_ = -1;
};

// VECIN: filled by MTE2, read by V. VECOUT: filled by V, read by MTE3.
template <TPosition position, int32_t depth>
class TQue : public TQueBind<position == TPosition::VECIN ? TPosition::GM : position,
                             position == TPosition::VECIN ? position : TPosition::GM, depth> {
  static_assert(position == TPosition::VECIN || position == TPosition::VECOUT, "no such queue");
};

class TPipe {
 public:
  TPipe() { hostsim::PipeSlot() = this; }
  ~TPipe() {
    if (hostsim::PipeSlot() == this) hostsim::PipeSlot() = nullptr;
  }
  TPipe(const TPipe &) = delete;
  TPipe &operator=(const TPipe &) = delete;

  template <TPosition position>
  bool InitBuffer(TBuf<position> &buffer, uint32_t bytes, HOSTSIM_SITE) {
    buffer.ub_ = hostsim::AllocUb(bytes, HOSTSIM_HERE);
    return true;
  }
  template <TPosition source, TPosition target, int32_t depth>
  bool InitBuffer(TQueBind<source, target, depth> &queue, uint8_t count, uint32_t bytes, HOSTSIM_SITE) {
    using Queue = TQueBind<source, target, depth>;
    queue.queue_ = hostsim::QueueInit(count, bytes, static_cast<int>(Queue::Full()),
                                      static_cast<int>(Queue::Free()), HOSTSIM_HERE);
    return true;
  }
  template <HardEvent event>
  TEventID AllocEventID(HOSTSIM_SITE) {
    return hostsim::AllocEvent(static_cast<int>(event), HOSTSIM_HERE);
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id, HOSTSIM_SITE) {
    hostsim::ReleaseEvent(static_cast<int>(event), id, HOSTSIM_HERE);
  }
  TEventID FetchEventID(HardEvent event, HOSTSIM_SITE) {
    return hostsim::FetchEvent(static_cast<int>(event), HOSTSIM_HERE);
  }
  template <HardEvent event>
  TEventID FetchEventID(HOSTSIM_SITE) {
    return hostsim::FetchEvent(static_cast<int>(event), HOSTSIM_HERE);
  }
  void Reset() { hostsim::ResetUb(); }
  void Destroy() {}
};

}  // namespace AscendC

inline AscendC::TPipe *GetTPipePtr() { return static_cast<AscendC::TPipe *>(hostsim::PipeSlot()); }
