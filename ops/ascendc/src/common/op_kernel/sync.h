// Order between the pipes of one core.
#pragma once

#include "kernel_operator.h"

// The core model knows each sync statement by its place in the source, so that its mutation test can
// leave it out. A helper that wraps one takes its caller's place as its last parameters and hands it
// on: `void Helper(int id TIERKV_AND_SITE)` calls `SetFlag<event>(id TIERKV_HERE)`. On the device all
// three are empty.
#ifdef TIERKV_HOSTSIM
#define TIERKV_SITE int site_line = __builtin_LINE(), const char *site_file = __builtin_FILE()
#define TIERKV_AND_SITE , TIERKV_SITE
#define TIERKV_HERE , site_line, site_file
#else
#define TIERKV_SITE
#define TIERKV_AND_SITE
#define TIERKV_HERE
#endif

namespace tierkv {

// What the second pipe of `event` does from here on comes after what the first did up to here.
template <AscendC::HardEvent event>
__aicore__ inline void Fence(TIERKV_SITE) {
  const auto id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
  AscendC::SetFlag<event>(id TIERKV_HERE);
  AscendC::WaitFlag<event>(id TIERKV_HERE);
}

}  // namespace tierkv
