// Where the records of ids lie in the backing.
#pragma once

#include "lookup.h"

namespace tierkv {

// far[i] = the backing row of ids[i], below 0 where the first `pages` of a block table have none; i < n. An
// id may be any number. `number` is work of `n` entries.
__aicore__ inline void FindBackingRows(TableReader &reader, const Ints &far, __gm__ int32_t *pageOf, uint32_t pages,
                                       uint32_t pageBits, const Ints &ids, const Ints &number, uint32_t n) {
  const auto bits = static_cast<int32_t>(pageBits);
  AscendC::ShiftRight(number, ids, bits, n);
  AscendC::PipeBarrier<PIPE_V>();
  reader.Find(far, pageOf, pages, number, n);
  AscendC::PipeBarrier<PIPE_V>();
  // (page - number) * size + id. A missing page, -1, gives less than 0: id is below (number + 1) * size.
  AscendC::Sub(far, far, number, n);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::ShiftLeft(far, far, bits, n);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(far, far, ids, n);
}

}  // namespace tierkv
