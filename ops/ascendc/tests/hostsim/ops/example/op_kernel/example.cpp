// y = x + add: tiles of 64 through double-buffered queues, then every core checks in.
#include "kernel_operator.h"

using namespace AscendC;

class Example {
 public:
  __aicore__ inline Example(GM_ADDR x, GM_ADDR y, const ExampleTilingData &data) : data_(data) {
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(x), data.elements);
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t *>(y), data.elements);
    pipe_.InitBuffer(in_, 2, 256);
    pipe_.InitBuffer(out_, 2, 256);
  }

  __aicore__ inline void Process() {
    for (uint64_t at = GetBlockIdx() * 64; at < data_.elements; at += GetBlockNum() * 64) {
      LocalTensor<int32_t> x = in_.AllocTensor<int32_t>();
      DataCopy(x, x_[at], 64);
      in_.EnQue(x);
      x = in_.DeQue<int32_t>();
      LocalTensor<int32_t> y = out_.AllocTensor<int32_t>();
      Adds(y, x, data_.add, 64);
      in_.FreeTensor(x);
      out_.EnQue(y);
      y = out_.DeQue<int32_t>();
      DataCopy(y_[at], y, 64);
      out_.FreeTensor(y);
    }
    SyncAll<true>();
  }

 private:
  const ExampleTilingData &data_;
  TPipe pipe_;
  GlobalTensor<int32_t> x_, y_;
  TQue<TPosition::VECIN, 2> in_;
  TQue<TPosition::VECOUT, 2> out_;
};

extern "C" __global__ __aicore__ void example(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(data, tiling);
  Example(x, y, data).Process();
}
