#include "row_definition.h"

namespace ops {

class DsaAppend : public OpDef {
 public:
  explicit DsaAppend(const char *name) : OpDef(name) {
    tierkv::Rows(this->Input("part"));
    tierkv::Numbers(this->Input("rows"));
    tierkv::Rows(this->Input("fresh"));
    tierkv::Rows(this->Input("backing"));
    tierkv::Rows(this->Output("fresh"));
    tierkv::Rows(this->Output("backing"));
    this->Attr("width").AttrType(REQUIRED).Int();
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(DsaAppend);

}  // namespace ops
