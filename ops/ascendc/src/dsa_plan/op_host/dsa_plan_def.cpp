#include "row_definition.h"

namespace ops {

// Columns: slot_of in 16 bits and in 32.
class DsaPlan : public OpDef {
 public:
  explicit DsaPlan(const char *name) : OpDef(name) {
    const auto always = [](ge::DataType type) { return std::vector<ge::DataType>(2, type); };
    for (const char *input : {"ids", "lanes", "kv_len", "q_len", "stable", "block_table"}) {
      tierkv::Describe(this->Input(input), always(ge::DT_INT32));
    }
    tierkv::Describe(this->Input("slot_of"), {ge::DT_INT16, ge::DT_INT32});
    tierkv::Describe(this->Input("counters"), always(ge::DT_INT64));
    for (const char *output : {"out_ids", "kind", "index", "length", "miss_id", "miss_from", "miss_count"}) {
      const bool bytes = std::string(output) == "kind";
      tierkv::Describe(this->Output(output), always(bytes ? ge::DT_INT8 : ge::DT_INT32));
    }
    tierkv::Describe(this->Output("counters"), always(ge::DT_INT64));
    this->Attr("page").AttrType(REQUIRED).Int();
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(DsaPlan);

}  // namespace ops
