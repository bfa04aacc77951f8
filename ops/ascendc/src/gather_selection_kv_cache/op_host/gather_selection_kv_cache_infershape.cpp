#include "register/op_def_registry.h"

namespace {

// Both outputs are inputs.
ge::graphStatus InferShape(gert::InferShapeContext *context) {
  *context->GetOutputShape(0) = *context->GetInputShape(8);
  *context->GetOutputShape(1) = *context->GetInputShape(9);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  context->SetOutputDataType(0, context->GetInputDataType(8));
  context->SetOutputDataType(1, context->GetInputDataType(9));
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_INFERSHAPE(GatherSelectionKvCache).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
