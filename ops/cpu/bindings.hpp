// Operators as Python functions: `f(threads, *schema arguments) -> bool`. False means that an
// argument is not laid out as the kernels need it, or names what does not exist, and that nothing
// was written: the caller takes the reference, which copes or raises.
#pragma once

#include <nanobind/nanobind.h>

#include "tensor.hpp"

namespace tierkv {

void bind_gather(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_replay(nanobind::module_& m);
void bind_place(nanobind::module_& m);
void bind_move(nanobind::module_& m);
void bind_worker(nanobind::module_& m);

// Run `kernel` without the GIL if all arguments were good.
template <class Kernel>
bool run_if(bool good, Kernel&& kernel) {
  if (!good) return false;
  nanobind::gil_scoped_release release;
  return kernel();
}

}  // namespace tierkv
