#include "register/op_def_registry.h"

namespace {

enum Input : size_t { kIds, kLanes, kCounters = 8 };
enum Output : size_t {
  kOutIds, kKind, kIndex, kLength, kMissId, kMissFrom, kMissCount, kSource, kWork, kWorkCount, kOutCounters, kOutputs
};

ge::graphStatus InferShape(gert::InferShapeContext *context) {
  const gert::Shape *ids = context->GetInputShape(kIds);
  const int64_t rows = ids->GetDim(0), queries = ids->GetDim(1), top_k = ids->GetDim(2);
  const int64_t entries = queries < 0 || top_k < 0 ? -1 : queries * top_k;
  for (const Output output : {kOutIds, kKind, kIndex}) *context->GetOutputShape(output) = *ids;
  for (const Output output : {kMissId, kMissFrom, kWork}) *context->GetOutputShape(output) = gert::Shape({rows, entries});
  for (const Output output : {kMissCount, kSource, kWorkCount}) *context->GetOutputShape(output) = gert::Shape({rows});
  *context->GetOutputShape(kLength) = gert::Shape({rows, queries});
  *context->GetOutputShape(kOutCounters) = *context->GetInputShape(kCounters);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  for (size_t output = 0; output < kOutputs; ++output) context->SetOutputDataType(output, ge::DT_INT32);
  context->SetOutputDataType(kKind, ge::DT_INT8);
  context->SetOutputDataType(kOutCounters, ge::DT_INT64);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_INFERSHAPE(GatherSelectionPlan).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
