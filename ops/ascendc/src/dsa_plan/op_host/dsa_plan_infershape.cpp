#include "register/op_def_registry.h"

namespace {

enum Input : size_t { kIds, kCounters = 7 };
enum Output : size_t { kOutIds, kKind, kIndex, kLength, kMissId, kMissFrom, kMissCount, kCountersOut };

ge::graphStatus InferShape(gert::InferShapeContext *context) {
  const gert::Shape &ids = *context->GetInputShape(kIds);
  if (ids.GetDimNum() != 3) return ge::GRAPH_FAILED;
  const int64_t rows = ids.GetDim(0), queries = ids.GetDim(1), top_k = ids.GetDim(2);
  for (const size_t output : {kOutIds, kKind, kIndex}) *context->GetOutputShape(output) = ids;
  *context->GetOutputShape(kLength) = {rows, queries};
  const int64_t entries = queries < 0 || top_k < 0 ? -1 : queries * top_k;
  for (const size_t output : {kMissId, kMissFrom}) *context->GetOutputShape(output) = {rows, entries};
  *context->GetOutputShape(kMissCount) = {rows};
  *context->GetOutputShape(kCountersOut) = *context->GetInputShape(kCounters);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  for (const size_t output : {kOutIds, kIndex, kLength, kMissId, kMissFrom, kMissCount}) {
    context->SetOutputDataType(output, ge::DT_INT32);
  }
  context->SetOutputDataType(kKind, ge::DT_INT8);
  context->SetOutputDataType(kCountersOut, ge::DT_INT64);
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_INFERSHAPE(DsaPlan).InferShape(InferShape).InferDataType(InferDataType);

}  // namespace
