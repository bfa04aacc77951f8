// Keep this step's rows and write the live ones to their place in backing.
#pragma once

#include "row_copy.h"
#include "share.h"

namespace tierkv {

struct AppendArgs {
  __gm__ uint8_t *part, *fresh, *backing;
  __gm__ int32_t *rows;
};

// The tiling data is a type that CANN generates; its fields are op_host/dsa_append_tiling.h's.
template <typename Tiling>
class Append {
 public:
  __aicore__ inline Append(const AppendArgs &args, const Tiling &tiling) : a_(args), t_(tiling) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    const Range mine = MyShare(t_.each, t_.more);
    copier_.Init(pipe, t_.width, t_.batchRows);
    if (t_.backingStride > 0) FetchPlaces(pipe, mine);
    if (t_.freshStride > 0) Keep(mine);
    if (t_.backingStride > 0) Write(mine);
    copier_.Close();
  }

 private:
  __aicore__ inline void FetchPlaces(AscendC::TPipe *pipe, const Range &mine) {
    places_ = TakeBlocks<int32_t>(pipe, t_.each + 1);
    Load(places_, a_.rows + mine.first, mine.last - mine.first);
  }

  __aicore__ inline void Keep(const Range &mine) {
    for (uint64_t row = mine.first; row < mine.last; ++row) {
      copier_.Put(a_.part + row * t_.partStride, a_.fresh + row * t_.freshStride);
    }
  }

  // Reads a row a second time: it costs less than to remember where the first went.
  __aicore__ inline void Write(const Range &mine) {
    Fence<AscendC::HardEvent::MTE2_S>();
    for (uint64_t row = mine.first; row < mine.last; ++row) {
      const int32_t place = places_.GetValue(row - mine.first);
      if (place >= 0) copier_.Put(a_.part + row * t_.partStride, a_.backing + place * t_.backingStride);
    }
  }

  const AppendArgs &a_;
  const Tiling &t_;
  RowCopier copier_;
  Ints places_;
};

}  // namespace tierkv
