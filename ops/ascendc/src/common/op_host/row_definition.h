// Arguments of operators that move rows: rows are bytes of any type, the rest has one type.
#pragma once

#include <vector>

#include "register/op_def_registry.h"

namespace tierkv {

// One column for each type that rows may have. An argument that is no row repeats its own.
inline std::vector<ge::DataType> RowTypes() { return {ge::DT_UINT8, ge::DT_INT8, ge::DT_FLOAT16, ge::DT_BF16}; }
inline std::vector<ge::DataType> Always(ge::DataType type) { return {4, type}; }

inline void Describe(ops::OpParamDef &argument, const std::vector<ge::DataType> &types) {
  const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
  argument.ParamType(ops::REQUIRED).DataType(types).Format(formats).UnknownShapeFormat(formats);
}

inline void Rows(ops::OpParamDef &argument) { Describe(argument, RowTypes()); }
inline void Kinds(ops::OpParamDef &argument) { Describe(argument, Always(ge::DT_INT8)); }
inline void Numbers(ops::OpParamDef &argument) { Describe(argument, Always(ge::DT_INT32)); }

}  // namespace tierkv
