// A bare table lookup: the yardstick for plan and place.
#pragma once

#include <cstdint>

namespace tierkv {

template <class Slot>
void lookup(const Slot* slot_of, const std::int32_t* ids, std::int64_t count, std::int32_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = slot_of[ids[i]];
}

}  // namespace tierkv
