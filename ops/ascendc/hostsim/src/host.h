// What the Python driver hands over for tiling and inference; native.py mirrors it.
#pragma once

#include <cstdint>

namespace hostsim {

struct OperandArgument {
  const int64_t *dims;
  int32_t rank, type, present;
};

struct AttrArgument {
  int64_t whole;
  double real;
  const char *text;
  char kind;  // of "ibfs"
};

struct Request {
  const OperandArgument *inputs, *outputs;
  const AttrArgument *attrs;
  uint64_t ub_bytes;
  int32_t input_count, output_count, attr_count, cores;
};

}  // namespace hostsim
