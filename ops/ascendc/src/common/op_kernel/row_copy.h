// Rows from anywhere in GM to anywhere in GM.
#pragma once

#include "vector.h"

namespace tierkv {

// Copies rows through two buffers in UB, one read while the other is written. A row costs the scalar
// unit one call; rows that follow each other at both ends of a burst share the burst. What is copied
// between two Flush must not overlap: rows are written in no promised order.
class RowCopier {
 public:
  // A buffer holds `batchRows` rows. Takes 2 * batchRows rows of UB, and 12 bytes a row for the runs.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t rowBytes, uint32_t batchRows) {
    pipe_ = pipe;
    rowBytes_ = rowBytes;
    slotBytes_ = RoundUp(rowBytes, kBlockBytes);
    batchRows_ = batchRows;
    slots_ = Take<uint8_t>(pipe, 2 * batchRows * slotBytes_);
    runTo_ = Take<uint64_t>(pipe, batchRows);
    runSlot_ = Take<uint32_t>(pipe, batchRows);
    for (uint32_t side = 0; side < 2; ++side) {
      arrived_[side] = pipe->AllocEventID<AscendC::HardEvent::MTE2_MTE3>();
      left_[side] = pipe->AllocEventID<AscendC::HardEvent::MTE3_MTE2>();
      AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side]);
    }
  }

  __aicore__ inline void Put(__gm__ uint8_t *from, __gm__ uint8_t *to) {
    if (rows_ == batchRows_) Flush();
    if (rows_ == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side_]);
    if (from != readEnd_) {
      FinishReading();
      readFrom_ = from;
    }
    if (to != writeEnd_) {  // the runs are the scalar unit's own: no pipe reads them
      runTo_.SetValue(runs_, reinterpret_cast<uint64_t>(to));
      runSlot_.SetValue(runs_++, rows_);
    }
    readEnd_ = from + rowBytes_;
    writeEnd_ = to + rowBytes_;
    ++rows_;
  }

  // Issue every read. For callers that order reads and writes of several cores, with at most a batch.
  __aicore__ inline void FinishReading() {
    if (read_ == rows_) return;
    AscendC::GlobalTensor<uint8_t> source;
    source.SetGlobalBuffer(readFrom_);
    AscendC::DataCopyPad(Slot(read_), source, Burst(rows_ - read_),
                         AscendC::DataCopyPadExtParams<uint8_t>{false, 0, 0, 0});
    read_ = rows_;
    readEnd_ = nullptr;
  }

  __aicore__ inline void Flush() {
    if (rows_ == 0) return;
    FinishReading();
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(arrived_[side_]);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(arrived_[side_]);
    uint32_t slot = 0;
    for (uint32_t run = 1; run <= runs_; ++run) {
      const uint32_t end = run < runs_ ? runSlot_.GetValue(run) : rows_;
      AscendC::GlobalTensor<uint8_t> target;
      target.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t *>(runTo_.GetValue(run - 1)));
      AscendC::DataCopyPad(target, Slot(slot), Burst(end - slot));
      slot = end;
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side_]);
    side_ ^= 1;
    rows_ = read_ = runs_ = 0;
    readEnd_ = writeEnd_ = nullptr;
  }

  // Copy what is left and take the flags back.
  __aicore__ inline void Close() {
    Flush();
    for (uint32_t side = 0; side < 2; ++side) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side]);
      pipe_->ReleaseEventID<AscendC::HardEvent::MTE3_MTE2>(left_[side]);
      pipe_->ReleaseEventID<AscendC::HardEvent::MTE2_MTE3>(arrived_[side]);
    }
  }

 private:
  __aicore__ inline AscendC::LocalTensor<uint8_t> Slot(uint32_t row) {
    return slots_[(side_ * batchRows_ + row) * slotBytes_];
  }

  // Rows that lie side by side in GM. In UB each starts at a multiple of 32 bytes.
  __aicore__ inline AscendC::DataCopyExtParams Burst(uint32_t rows) const {
    if (rowBytes_ == slotBytes_) return {1, rows * rowBytes_, 0, 0, 0};
    return {static_cast<uint16_t>(rows), rowBytes_, 0, 0, 0};
  }

  AscendC::TPipe *pipe_ = nullptr;
  AscendC::LocalTensor<uint8_t> slots_;
  AscendC::LocalTensor<uint64_t> runTo_;    // where each run of rows goes,
  AscendC::LocalTensor<uint32_t> runSlot_;  // and its first row in the buffer
  AscendC::TEventID arrived_[2] = {}, left_[2] = {};
  __gm__ uint8_t *readFrom_ = nullptr, *readEnd_ = nullptr, *writeEnd_ = nullptr;
  uint32_t rowBytes_ = 0, slotBytes_ = 0, batchRows_ = 0;
  uint32_t side_ = 0, rows_ = 0, read_ = 0, runs_ = 0;
};

}  // namespace tierkv
