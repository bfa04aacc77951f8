// The set of an id, for many ids.
#pragma once

#include "tierkv_constants.h"
#include "vector.h"

namespace tierkv {

class SetOf {
 public:
  // At most 16384 sets; `low_bits`: the remainder, of ids that float32 holds exactly.
  __aicore__ inline void Init(uint32_t sets, bool low_bits) {
    sets_ = static_cast<int32_t>(sets), low_bits_ = low_bits;
  }

  // `work` is for n, too.
  __aicore__ inline void operator()(const Ints &set, const Ints &id, const Ints &work, uint32_t n) const {
    low_bits_ ? Remainder(set, id, work, n) : Multiply(set, id, work, n);
  }

 private:
  // (product mod 2^32) * sets >> 32, from the halves of the product: nothing exceeds 31 bits. The product itself
  // relies on int32 multiplication to wrap around.
  __aicore__ inline void Multiply(const Ints &set, const Ints &id, const Ints &work, uint32_t n) const {
    constexpr uint32_t half = 16;
    AscendC::Muls(set, id, static_cast<int32_t>(static_cast<uint32_t>(kHashMultiplier)), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftLeft(work, set, static_cast<int32_t>(half), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftRight(Words(set), Words(set), half, n);
    AscendC::ShiftRight(Words(work), Words(work), half, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(set, set, sets_, n);
    AscendC::Muls(work, work, sets_, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftRight(Words(work), Words(work), half, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(set, set, work, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftRight(Words(set), Words(set), half, n);
  }

  // There is no integer division: the quotient in float32 is at most one off, either way.
  __aicore__ inline void Remainder(const Ints &set, const Ints &id, const Ints &work, uint32_t n) const {
    AscendC::Cast(Floats(set), id, AscendC::RoundMode::CAST_RINT, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(Floats(set), Floats(set), 1.0f / static_cast<float>(sets_), n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(work, Floats(set), AscendC::RoundMode::CAST_TRUNC, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(work, work, -sets_, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(set, work, id, n);
    AscendC::PipeBarrier<PIPE_V>();
    Lift(set, work, n);
    AscendC::Adds(set, set, -sets_, n);
    AscendC::PipeBarrier<PIPE_V>();
    Lift(set, work, n);
  }

  // Adds the number of sets to what is below 0.
  __aicore__ inline void Lift(const Ints &set, const Ints &work, uint32_t n) const {
    AscendC::ShiftRight(work, set, 31, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(work, work, -sets_, n);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(set, set, work, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  int32_t sets_ = 1;
  bool low_bits_ = false;
};

}  // namespace tierkv
