#include "row_definition.h"

namespace ops {

class DsaInstall : public OpDef {
 public:
  explicit DsaInstall(const char *name) : OpDef(name) {
    tierkv::Numbers(this->Input("lanes"));
    tierkv::Numbers(this->Input("miss_from"));
    tierkv::Numbers(this->Input("miss_count"));
    tierkv::Numbers(this->Input("slot"));
    tierkv::Rows(this->Input("selection"));
    tierkv::Rows(this->Input("pool"));
    tierkv::Rows(this->Output("pool"));
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(DsaInstall);

}  // namespace ops
