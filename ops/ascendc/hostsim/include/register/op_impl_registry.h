// Functions of an operator that are registered without its definition.
#pragma once

#include <map>
#include <string>

#include "exe_graph/runtime/contexts.h"

namespace hostsim {

struct OpFunctions {
  gert::TilingFunc tiling = nullptr;
  gert::InferShapeFunc infer_shape = nullptr;
  gert::InferDataTypeFunc infer_type = nullptr;

  OpFunctions &Tiling(gert::TilingFunc function) { return tiling = function, *this; }
  OpFunctions &InferShape(gert::InferShapeFunc function) { return infer_shape = function, *this; }
  OpFunctions &InferDataType(gert::InferDataTypeFunc function) { return infer_type = function, *this; }
  template <typename Info>
  OpFunctions &TilingParse(ge::graphStatus (*)(void *)) {
    return *this;
  }
};

inline std::map<std::string, OpFunctions> &Functions() {
  static std::map<std::string, OpFunctions> functions;
  return functions;
}

}  // namespace hostsim

#define HOSTSIM_JOIN2(a, b) a##b
#define HOSTSIM_JOIN(a, b) HOSTSIM_JOIN2(a, b)
#define HOSTSIM_FUNCTIONS(OpType)                                              \
  [[maybe_unused]] static ::hostsim::OpFunctions &HOSTSIM_JOIN(hostsim_functions_, __COUNTER__) = \
      ::hostsim::Functions()[#OpType]
#define IMPL_OP_OPTILING(OpType) HOSTSIM_FUNCTIONS(OpType)
#define IMPL_OP_INFERSHAPE(OpType) HOSTSIM_FUNCTIONS(OpType)
#define IMPL_OP(OpType) HOSTSIM_FUNCTIONS(OpType)
