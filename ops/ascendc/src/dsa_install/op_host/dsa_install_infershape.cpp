#include "register/op_def_registry.h"

namespace {

// The pool is an input.
ge::graphStatus InferShape(gert::InferShapeContext *context) {
  *context->GetOutputShape(0) = *context->GetInputShape(5);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  return context->SetOutputDataType(0, context->GetInputDataType(5));
}

IMPL_OP_INFERSHAPE(DsaInstall).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
