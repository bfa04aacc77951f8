// As many steps as `steps` has rows, on as many cores as asked for.
#include "register/op_def_registry.h"
#include "script_tiling.h"

namespace optiling {

static ge::graphStatus Tile(gert::TilingContext *context) {
  ScriptTilingData data;
  data.set_steps(static_cast<uint32_t>(context->GetInputShape(0)->GetStorageShape().GetDim(0)));
  data.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(data.GetDataSize());
  context->SetBlockDim(static_cast<uint32_t>(*context->GetAttrs()->GetInt(0)));
  context->SetScheduleMode(1);
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class Script : public OpDef {
 public:
  explicit Script(const char *name) : OpDef(name) {
    this->Input("steps").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Input("z").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Output("z").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Attr("blocks").AttrType(REQUIRED).Int();
    this->AICore().SetTiling(optiling::Tile).AddConfig("ascend910_93");
  }
};

OP_ADD(Script);

}  // namespace ops
