#include "register/op_def_registry.h"

namespace {

// A row of `backing` for each entry of `kind`.
ge::graphStatus InferShape(gert::InferShapeContext *context) {
  const gert::Shape *kind = context->GetInputShape(1), *backing = context->GetInputShape(5);
  gert::Shape *out = context->GetOutputShape(0);
  *out = *kind;
  out->AppendDim(backing->GetDim(backing->GetDimNum() - 1));
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  return context->SetOutputDataType(0, context->GetInputDataType(5));
}

IMPL_OP_INFERSHAPE(DsaServe).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
