#include "register/op_def_registry.h"

namespace {

enum Input : size_t { kLanes, kMissId = 3, kSlotOf = 6, kIdAt, kHand, kVisited, kCounters };
enum Output : size_t { kSlotOfOut, kIdAtOut, kHandOut, kVisitedOut, kCountersOut, kSlot, kCount };

// The tables, which are inputs, then what the operator makes.
ge::graphStatus InferShape(gert::InferShapeContext *context) {
  for (size_t i = 0; kSlotOf + i <= kCounters; ++i) {
    const gert::Shape *table = context->GetOptionalInputShape(kSlotOf + i);
    if (table != nullptr) *context->GetOutputShape(i) = *table;
  }
  *context->GetOutputShape(kSlot) = *context->GetRequiredInputShape(kMissId);
  *context->GetOutputShape(kCount) = *context->GetRequiredInputShape(kLanes);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  context->SetOutputDataType(kSlotOfOut, context->GetRequiredInputDataType(kSlotOf));
  context->SetOutputDataType(kVisitedOut, ge::DT_INT64);
  context->SetOutputDataType(kCountersOut, ge::DT_INT64);
  for (const size_t output : {kIdAtOut, kHandOut, kSlot, kCount}) context->SetOutputDataType(output, ge::DT_INT32);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_INFERSHAPE(DsaCommit).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
