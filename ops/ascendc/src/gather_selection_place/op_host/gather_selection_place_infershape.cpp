#include "register/op_def_registry.h"

namespace {

// The inputs that id_at, row_of, slot, count and counters are shaped like.
constexpr size_t kLike[] = {4, 5, 3, 0, 6};

ge::graphStatus InferShape(gert::InferShapeContext *context) {
  for (size_t i = 0; i < 5; ++i) *context->GetOutputShape(i) = *context->GetInputShape(kLike[i]);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  for (size_t i = 0; i < 5; ++i) context->SetOutputDataType(i, context->GetInputDataType(kLike[i]));
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_INFERSHAPE(GatherSelectionPlace).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
