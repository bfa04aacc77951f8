#include "row_definition.h"

namespace ops {

// Columns: slot_of in 16 bits and in 32.
class DsaCommit : public OpDef {
 public:
  explicit DsaCommit(const char *name) : OpDef(name) {
    const auto always = [](ge::DataType type) { return std::vector<ge::DataType>(2, type); };
    tierkv::Describe(this->Input("lanes"), always(ge::DT_INT32));
    tierkv::Describe(this->Input("kind"), always(ge::DT_INT8));
    for (const char *input : {"index", "miss_id", "miss_from", "miss_count"}) {
      tierkv::Describe(this->Input(input), always(ge::DT_INT32));
    }
    Tables([this](const char *table) -> OpParamDef & { return this->Input(table); });
    Tables([this](const char *table) -> OpParamDef & { return this->Output(table); });
    tierkv::Describe(this->Output("slot"), always(ge::DT_INT32));
    tierkv::Describe(this->Output("count"), always(ge::DT_INT32));
    this->Attr("policy").AttrType(REQUIRED).Int();   // 0 set-fifo, 1 clock
    this->Attr("hashing").AttrType(REQUIRED).Int();  // 0 multiplicative, 1 low bits
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }

 private:
  // What placement changes in place.
  template <typename F>
  static void Tables(F argument) {
    const auto always = [](ge::DataType type) { return std::vector<ge::DataType>(2, type); };
    tierkv::Describe(argument("slot_of"), {ge::DT_INT16, ge::DT_INT32});
    tierkv::Describe(argument("id_at"), always(ge::DT_INT32));
    tierkv::Describe(argument("hand"), always(ge::DT_INT32));
    tierkv::Describe(argument("visited"), always(ge::DT_INT64));
    argument("visited").ParamType(OPTIONAL);
    tierkv::Describe(argument("counters"), always(ge::DT_INT64));
  }
};

OP_ADD(DsaCommit);

}  // namespace ops
