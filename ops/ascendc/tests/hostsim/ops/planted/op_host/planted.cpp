// Blocks, case and fault come straight from the attributes.
#include "log/log.h"
#include "planted_tiling.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {

static ge::graphStatus Tile(gert::TilingContext *context) {
  const gert::RuntimeAttrs *attrs = context->GetAttrs();
  if (context->GetOptionalInputShape(1)) {
    OP_LOGE(context->GetNodeName(), "optional: is not taken, got %zu dimensions",
            context->GetOptionalInputShape(1)->GetStorageShape().GetDimNum());
    return ge::GRAPH_FAILED;
  }
  PlantedTilingData data;
  const uint16_t unused[3] = {7, 8, 9};
  data.set_which(static_cast<int32_t>(*attrs->GetInt(0)));
  data.set_bad(*attrs->GetBool(1));
  data.set_unused(unused);
  data.set_wide(-1);
  data.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(data.GetDataSize());
  context->SetBlockDim(static_cast<uint32_t>(*attrs->GetInt(2)));
  context->SetTilingKey(static_cast<uint64_t>(*attrs->GetInt(0) / 100));
  context->SetScheduleMode(1);
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + 256;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class Planted : public OpDef {
 public:
  explicit Planted(const char *name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Input("optional").ParamType(OPTIONAL).DataType({ge::DT_INT8}).Format({ge::FORMAT_ND});
    this->Input("z").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Output("z").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Attr("which").AttrType(REQUIRED).Int();
    this->Attr("bad").AttrType(OPTIONAL).Bool(false);
    this->Attr("blocks").AttrType(OPTIONAL).Int(1);
    this->AICore().SetTiling(optiling::Tile).AddConfig("ascend910_93");
  }
};

OP_ADD(Planted);

}  // namespace ops
