#include "example_tiling.h"

#include <algorithm>

#include "log/log.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {

static ge::graphStatus Tile(gert::TilingContext *context) {
  const int64_t elements = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
  if (elements % 64) {
    OP_LOGE(context->GetNodeName(), "x: the elements must be a multiple of 64, got %ld", static_cast<long>(elements));
    return ge::GRAPH_FAILED;
  }
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  ExampleTilingData data;
  data.set_elements(static_cast<uint64_t>(elements));
  data.set_add(static_cast<int32_t>(*context->GetAttrs()->GetInt(0)));
  data.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(data.GetDataSize());
  const int64_t tiles = std::max<int64_t>(1, elements / 64);
  context->SetBlockDim(static_cast<uint32_t>(std::min<int64_t>(platform.GetCoreNumAiv(), tiles)));
  context->SetScheduleMode(1);
  *context->GetWorkspaceSizes(1) = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext *context) {
  *context->GetOutputShape(0) = *context->GetInputShape(0);
  return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext *context) {
  return context->SetOutputDataType(0, context->GetInputDataType(0));
}

}  // namespace ge

namespace ops {

class Example : public OpDef {
 public:
  explicit Example(const char *name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND}).AutoContiguous();
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Attr("add").AttrType(OPTIONAL).Int(1);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::Tile).AddConfig("ascend910b").AddConfig("ascend910_93");
  }
};

OP_ADD(Example);

}  // namespace ops
