// How a thread that helps another gets a core at once. OpenMP's threads, which torch uses, keep theirs
// busy for milliseconds after their work is done. The scheduler would let the newcomer wait for them,
// or give it the turn of the very thread that it is to help.
#pragma once

#include <sched.h>

#include <cstdint>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tierkv {

// Made by the helping thread itself.
class BackgroundThread {
 public:
  BackgroundThread() {
    if (sched_getaffinity(0, sizeof(all_), &all_) != 0) CPU_ZERO(&all_);
    take_short_turns();
  }

  // Stay off the core that the caller was on. Costs nothing as long as that is the same.
  void avoid(int caller) {
    if (caller < 0 || caller == avoided_ || caller >= CPU_SETSIZE || !CPU_ISSET(caller, &all_)) return;
    cpu_set_t others = all_;
    CPU_CLR(caller, &others);
    if (CPU_COUNT(&others) == 0) return;
    if (sched_setaffinity(0, sizeof(others), &others) == 0) avoided_ = caller;
  }

 private:
  // One that asks for short turns is let in early (Linux 6.12); other systems ignore it.
  static void take_short_turns() {
#if defined(__linux__) && defined(SYS_sched_setattr)
    struct {
      std::uint32_t size, policy;
      std::uint64_t flags;
      std::int32_t nice;
      std::uint32_t priority;
      std::uint64_t runtime, deadline, period;
    } attributes = {};
    attributes.size = sizeof(attributes);
    attributes.runtime = 100'000;  // nanoseconds, the shortest
    static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
#endif
  }

  cpu_set_t all_;
  int avoided_ = -1;
};

}  // namespace tierkv
