#include "row_definition.h"

namespace ops {

class GatherSelectionKvCache : public OpDef {
 public:
  explicit GatherSelectionKvCache(const char *name) : OpDef(name) {
    tierkv::Kinds(this->Input("kind"));
    tierkv::Numbers(this->Input("index"));
    tierkv::Numbers(this->Input("length"));
    tierkv::Numbers(this->Input("source"));
    tierkv::Numbers(this->Input("work"));
    tierkv::Numbers(this->Input("work_count"));
    tierkv::Rows(this->Input("fresh"));
    tierkv::Rows(this->Input("backing"));
    tierkv::Rows(this->Input("buffer"));
    tierkv::Numbers(this->Input("filled"));
    tierkv::Rows(this->Output("buffer"));
    tierkv::Numbers(this->Output("filled"));
    this->Attr("first_row").AttrType(REQUIRED).Int();
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(GatherSelectionKvCache);

}  // namespace ops
