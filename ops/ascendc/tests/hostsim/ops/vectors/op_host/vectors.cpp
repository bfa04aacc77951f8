#include "register/op_def_registry.h"
#include "vectors_tiling.h"

static ge::graphStatus Tile(gert::TilingContext *context) {
  optiling::VectorsTilingData data;
  data.set_which(static_cast<int32_t>(*context->GetAttrs()->GetInt(0)));
  data.set_option(static_cast<int32_t>(*context->GetAttrs()->GetInt(1)));
  data.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(data.GetDataSize());
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(Vectors).Tiling(Tile);

namespace ops {

class Vectors : public OpDef {
 public:
  explicit Vectors(const char *name) : OpDef(name) {
    this->Input("a").DataType({ge::DT_INT32, ge::DT_FLOAT});
    this->Input("b").DataType({ge::DT_INT32, ge::DT_FLOAT});
    this->Output("out").DataType({ge::DT_INT32, ge::DT_INT32});
    this->Attr("which").AttrType(REQUIRED).Int();
    this->Attr("option").AttrType(OPTIONAL).Int();
  }
};

OP_ADD(Vectors);

}  // namespace ops
