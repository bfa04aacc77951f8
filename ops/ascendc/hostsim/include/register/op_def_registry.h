// The definition of an operator: inputs, outputs, attributes, devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "register/op_impl_registry.h"
#include "register/tilingdata_base.h"

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };

class OpParamDef {
 public:
  std::string name;
  Option kind = REQUIRED;
  std::vector<ge::DataType> types;

  OpParamDef &ParamType(Option option) { return kind = option, *this; }
  OpParamDef &DataType(std::vector<ge::DataType> allowed) { return types = std::move(allowed), *this; }
  OpParamDef &DataTypeList(std::vector<ge::DataType> allowed) { return types = std::move(allowed), *this; }
  OpParamDef &Format(std::vector<ge::Format>) { return *this; }
  OpParamDef &FormatList(std::vector<ge::Format>) { return *this; }
  OpParamDef &UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
  OpParamDef &AutoContiguous() { return *this; }
};

class OpAttrDef {
 public:
  std::string name;
  Option kind = OPTIONAL;
  gert::AttrValue value = int64_t{0};
  std::string type = "int";

  OpAttrDef &AttrType(Option option) { return kind = option, *this; }
  OpAttrDef &Int(int64_t fallback = 0) { return Set("int", fallback); }
  OpAttrDef &Bool(bool fallback = false) { return Set("bool", fallback); }
  OpAttrDef &Float(float fallback = 0) { return Set("float", fallback); }
  OpAttrDef &String(const char *fallback = "") { return Set("str", std::string(fallback)); }

 private:
  OpAttrDef &Set(const char *kind_of, gert::AttrValue fallback) {
    type = kind_of;
    value = std::move(fallback);
    return *this;
  }
};

class OpAICoreConfig {
 public:
  OpAICoreConfig &DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig &DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig &DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig &DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig &NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig &PrecisionReduceFlag(bool) { return *this; }
  OpAICoreConfig &ExtendCfgInfo(const char *, const char *) { return *this; }
};

class OpAICoreDef {
 public:
  gert::TilingFunc tiling = nullptr;
  std::vector<std::string> devices;

  OpAICoreDef &SetTiling(gert::TilingFunc function) { return tiling = function, *this; }
  OpAICoreDef &AddConfig(const char *device) { return devices.emplace_back(device), *this; }
  OpAICoreDef &AddConfig(const char *device, OpAICoreConfig &) { return AddConfig(device); }
};

class OpDef {
 public:
  explicit OpDef(const char *type) : name(type) {}
  virtual ~OpDef() = default;

  OpParamDef &Input(const char *input) { return Named(inputs, input); }
  OpParamDef &Output(const char *output) { return Named(outputs, output); }
  OpAttrDef &Attr(const char *attr) { return Named(attrs, attr); }
  OpDef &SetInferShape(gert::InferShapeFunc function) { return infer_shape = function, *this; }
  OpDef &SetInferDataType(gert::InferDataTypeFunc function) { return infer_type = function, *this; }
  OpAICoreDef &AICore() { return core; }

  std::string name;
  // By pointer, since a definition may keep what Input and its like returned.
  std::vector<std::unique_ptr<OpParamDef>> inputs, outputs;
  std::vector<std::unique_ptr<OpAttrDef>> attrs;
  OpAICoreDef core;
  gert::InferShapeFunc infer_shape = nullptr;
  gert::InferDataTypeFunc infer_type = nullptr;

 private:
  template <typename Def>
  static Def &Named(std::vector<std::unique_ptr<Def>> &list, const char *name) {
    for (auto &each : list) {
      if (each->name == name) return *each;
    }
    list.push_back(std::make_unique<Def>());
    list.back()->name = name;
    return *list.back();
  }
};

inline std::vector<std::unique_ptr<OpDef>> &Definitions() {
  static std::vector<std::unique_ptr<OpDef>> definitions;
  return definitions;
}

}  // namespace ops

#define OP_ADD(OpType)                                    \
  [[maybe_unused]] static const bool hostsim_op_##OpType = \
      (::ops::Definitions().push_back(std::make_unique<OpType>(#OpType)), true)
