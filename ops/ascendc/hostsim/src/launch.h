// What the Python driver hands over to run a kernel; native.py mirrors it.
#pragma once

#include <cstdint>

namespace hostsim {

struct TensorArgument {
  const char *name;
  uint8_t *data;
  uint64_t bytes;
  int32_t fresh;  // an output that is no input
};

struct Launch {
  void (*kernel)(uint8_t **arguments);
  const TensorArgument *tensors;
  const int32_t *arguments;  // index of a tensor, -1: an optional one that is absent
  const uint8_t *tiling;
  const char *skip_file;
  uint64_t workspace, key;
  int32_t tensor_count, argument_count, blocks, cores, skip_line, stop_at_first, together;
};

}  // namespace hostsim

extern "C" const char *hostsim_launch(const hostsim::Launch *task);
