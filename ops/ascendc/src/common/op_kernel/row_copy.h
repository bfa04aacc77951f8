// Rows from anywhere in GM to anywhere in GM.
#pragma once

#include "row_buffer.h"

namespace tierkv {

// Copies rows for callers that learn where a row comes from and goes to at once. A row costs the scalar
// unit one call. What is copied between two Flush must not overlap: rows are written in no promised order.
class RowCopier {
 public:
  // Takes 2 * batchRows rows of UB, and 12 bytes a row for the runs.
  __aicore__ inline void Init(AscendC::TPipe *pipe, uint32_t rowBytes, uint32_t batchRows) {
    rowBytes_ = rowBytes;
    batchRows_ = batchRows;
    buffer_.Init(pipe, rowBytes, batchRows);
    runTo_ = Take<uint64_t>(pipe, batchRows);
    runFirst_ = Take<uint32_t>(pipe, batchRows);
  }

  __aicore__ inline void Put(__gm__ uint8_t *from, __gm__ uint8_t *to) {
    if (buffer_.Rows() == batchRows_) Flush();
    if (to != end_) {  // the runs are the scalar unit's own: no pipe reads them
      runTo_.SetValue(runs_, reinterpret_cast<uint64_t>(to));
      runFirst_.SetValue(runs_++, buffer_.Rows());
    }
    end_ = to + rowBytes_;
    buffer_.Read(from);
  }

  // Issue every read. For callers that order reads and writes of several cores, with at most a batch.
  __aicore__ inline void FinishReading() { buffer_.FinishReading(); }

  __aicore__ inline void Flush() {
    buffer_.StartWriting();
    uint32_t row = 0;
    for (uint32_t run = 1; run <= runs_; ++run) {
      const uint32_t end = run < runs_ ? runFirst_.GetValue(run) : buffer_.Rows();
      buffer_.Write(reinterpret_cast<__gm__ uint8_t *>(runTo_.GetValue(run - 1)), end - row);
      row = end;
    }
    buffer_.Turn();
    runs_ = 0;
    end_ = nullptr;
  }

  // Copy what is left and take the flags back.
  __aicore__ inline void Close() {
    Flush();
    buffer_.Close();
  }

 private:
  RowBuffer buffer_;
  AscendC::LocalTensor<uint64_t> runTo_;     // where each run of rows goes,
  AscendC::LocalTensor<uint32_t> runFirst_;  // and its first row in the buffer
  __gm__ uint8_t *end_ = nullptr;
  uint32_t rowBytes_ = 0, batchRows_ = 0, runs_ = 0;
};

}  // namespace tierkv
