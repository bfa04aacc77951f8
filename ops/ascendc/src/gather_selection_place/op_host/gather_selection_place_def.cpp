#include "row_definition.h"

namespace ops {

class GatherSelectionPlace : public OpDef {
 public:
  explicit GatherSelectionPlace(const char *name) : OpDef(name) {
    tierkv::Describe(this->Input("lanes"), {ge::DT_INT32});
    tierkv::Describe(this->Input("ids"), {ge::DT_INT32});
    tierkv::Describe(this->Input("kind"), {ge::DT_INT8});
    tierkv::Describe(this->Input("miss_from"), {ge::DT_INT32});
    tierkv::Describe(this->Input("id_at"), {ge::DT_INT32});
    tierkv::Describe(this->Input("row_of"), {ge::DT_INT32});
    tierkv::Describe(this->Input("counters"), {ge::DT_INT64});
    tierkv::Describe(this->Output("id_at"), {ge::DT_INT32});
    tierkv::Describe(this->Output("row_of"), {ge::DT_INT32});
    tierkv::Describe(this->Output("slot"), {ge::DT_INT32});
    tierkv::Describe(this->Output("count"), {ge::DT_INT32});
    tierkv::Describe(this->Output("counters"), {ge::DT_INT64});
    this->Attr("first_row").AttrType(REQUIRED).Int();
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(GatherSelectionPlace);

}  // namespace ops
