#include "row_definition.h"

namespace ops {

class GatherSelectionPlan : public OpDef {
 public:
  explicit GatherSelectionPlan(const char *name) : OpDef(name) {
    tierkv::Describe(this->Input("ids"), {ge::DT_INT32});
    tierkv::Describe(this->Input("lanes"), {ge::DT_INT32});
    tierkv::Describe(this->Input("kv_len"), {ge::DT_INT32});
    tierkv::Describe(this->Input("q_len"), {ge::DT_INT32});
    tierkv::Describe(this->Input("stable"), {ge::DT_INT32});
    tierkv::Describe(this->Input("block_table"), {ge::DT_INT32});
    tierkv::Describe(this->Input("id_at"), {ge::DT_INT32});
    tierkv::Describe(this->Input("row_of"), {ge::DT_INT32});
    tierkv::Describe(this->Input("counters"), {ge::DT_INT64});
    tierkv::Describe(this->Output("out_ids"), {ge::DT_INT32});
    tierkv::Describe(this->Output("kind"), {ge::DT_INT8});
    tierkv::Describe(this->Output("index"), {ge::DT_INT32});
    tierkv::Describe(this->Output("length"), {ge::DT_INT32});
    tierkv::Describe(this->Output("miss_id"), {ge::DT_INT32});
    tierkv::Describe(this->Output("miss_from"), {ge::DT_INT32});
    tierkv::Describe(this->Output("miss_count"), {ge::DT_INT32});
    tierkv::Describe(this->Output("source"), {ge::DT_INT32});
    tierkv::Describe(this->Output("work"), {ge::DT_INT32});
    tierkv::Describe(this->Output("work_count"), {ge::DT_INT32});
    tierkv::Describe(this->Output("counters"), {ge::DT_INT64});
    this->Attr("page").AttrType(REQUIRED).Int();
    this->Attr("first_row").AttrType(REQUIRED).Int();
    this->Attr("across").AttrType(REQUIRED).Bool();
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(GatherSelectionPlan);

}  // namespace ops
