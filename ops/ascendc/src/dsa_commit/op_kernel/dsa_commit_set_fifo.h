// Set-associative FIFO: a miss takes the way under its set's hand.
#pragma once

#include "dsa_commit_args.h"
#include "share.h"
#include "vector.h"

namespace tierkv {

template <typename Tiling>
class CommitSetFifo {
 public:
  static constexpr bool kTouches = false;  // hits move nothing

  __aicore__ inline CommitSetFifo(const CommitArgs &args, const Tiling &tiling) : a_(args), t_(tiling) {}

  __aicore__ inline void Init(AscendC::TPipe *pipe) { hand_ = Take<int32_t>(pipe, t_.mostSets); }

  __aicore__ inline void Close(AscendC::TPipe *) {}

  __aicore__ inline void Fetch(const CommitPart &part) const { Load(hand_, Hands(part), part.sets); }

  __aicore__ inline void Touch(const CommitPart &, uint32_t) const {}

  // Gives the way that a miss takes in a set of the part.
  __aicore__ inline uint32_t Next(uint32_t set) const {
    const auto hand = static_cast<uint32_t>(hand_.GetValue(set)), way = hand < t_.ways ? hand : 0;
    hand_.SetValue(set, static_cast<int32_t>(way + 1 == t_.ways ? 0 : way + 1));
    return way;
  }

  // After the scalar pipe's last word, and an S_MTE3 if anything was `changed`.
  __aicore__ inline void Write(const CommitPart &part, bool changed) const {
    if (changed) Store(Hands(part), hand_, part.sets);
  }

 private:
  __aicore__ inline __gm__ int32_t *Hands(const CommitPart &part) const {
    return a_.hand + static_cast<uint64_t>(part.lane) * t_.sets + part.set;
  }

  const CommitArgs &a_;
  const Tiling &t_;
  Ints hand_;
};

}  // namespace tierkv
