#include "row_definition.h"

namespace ops {

class DsaServe : public OpDef {
 public:
  explicit DsaServe(const char *name) : OpDef(name) {
    tierkv::Numbers(this->Input("lanes"));
    tierkv::Kinds(this->Input("kind"));
    tierkv::Numbers(this->Input("index"));
    tierkv::Rows(this->Input("fresh"));
    tierkv::Rows(this->Input("pool"));
    tierkv::Rows(this->Input("backing"));
    tierkv::Rows(this->Output("out"));
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(DsaServe);

}  // namespace ops
