// Rows on their way through UB.
#pragma once

#include "vector.h"

namespace tierkv {

// Two buffers, one read while the other is written. Rows that follow each other in GM share a burst.
//
// 1. Read some rows, at most `batchRows`.
// 2. StartWriting, then Write them in the order they were read. Rows that go side by side may be one call.
// 3. Turn to the other buffer.
class RowBuffer {
 public:
  // Takes 2 * batchRows rows of UB.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t rowBytes, uint32_t batchRows) {
    pipe_ = pipe;
    rowBytes_ = rowBytes;
    slotBytes_ = RoundUp(rowBytes, kBlockBytes);
    batchRows_ = batchRows;
    slots_ = Take<uint8_t>(pipe, 2 * batchRows * slotBytes_);
    for (uint32_t side = 0; side < 2; ++side) {
      arrived_[side] = pipe->AllocEventID<AscendC::HardEvent::MTE2_MTE3>();
      left_[side] = pipe->AllocEventID<AscendC::HardEvent::MTE3_MTE2>();
      AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side]);
    }
  }

  // Take the flags back.
  __aicore__ inline void Close() {
    for (uint32_t side = 0; side < 2; ++side) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side]);
      pipe_->ReleaseEventID<AscendC::HardEvent::MTE3_MTE2>(left_[side]);
      pipe_->ReleaseEventID<AscendC::HardEvent::MTE2_MTE3>(arrived_[side]);
    }
  }

  __aicore__ inline uint32_t Rows() const { return rows_; }

  __aicore__ inline void Read(__gm__ uint8_t *from) {
    if (rows_ == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side_]);
    if (from != readEnd_) {
      FinishReading();
      readFrom_ = from;
    }
    readEnd_ = from + rowBytes_;
    ++rows_;
  }

  // Issue every read.
  __aicore__ inline void FinishReading() {
    if (read_ == rows_) return;
    AscendC::GlobalTensor<uint8_t> source;
    source.SetGlobalBuffer(readFrom_);
    AscendC::DataCopyPad(Slot(read_), source, Burst(rows_ - read_),
                         AscendC::DataCopyPadExtParams<uint8_t>{false, 0, 0, 0});
    read_ = rows_;
    readEnd_ = nullptr;
  }

  __aicore__ inline void StartWriting() {
    if (rows_ == 0) return;
    FinishReading();
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(arrived_[side_]);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(arrived_[side_]);
  }

  __aicore__ inline void Write(__gm__ uint8_t *to, uint32_t rows = 1) {
    if (to != writeEnd_) {
      FinishWriting();
      writeTo_ = to;
    }
    writeEnd_ = to + uint64_t{rows} * rowBytes_;
    taken_ += rows;
  }

  __aicore__ inline void Turn() {
    if (rows_ == 0) return;
    FinishWriting();
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(left_[side_]);
    side_ ^= 1;
    rows_ = read_ = taken_ = written_ = 0;
  }

 private:
  __aicore__ inline void FinishWriting() {
    if (written_ == taken_) return;
    AscendC::GlobalTensor<uint8_t> target;
    target.SetGlobalBuffer(writeTo_);
    AscendC::DataCopyPad(target, Slot(written_), Burst(taken_ - written_));
    written_ = taken_;
    writeEnd_ = nullptr;
  }

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
  AscendC::TEventID arrived_[2] = {}, left_[2] = {};
  __gm__ uint8_t *readFrom_ = nullptr, *readEnd_ = nullptr, *writeTo_ = nullptr, *writeEnd_ = nullptr;
  uint32_t rowBytes_ = 0, slotBytes_ = 0, batchRows_ = 0, side_ = 0;
  uint32_t rows_ = 0, read_ = 0;      // asked for; of these, issued
  uint32_t taken_ = 0, written_ = 0;  // likewise
};

}  // namespace tierkv
