// The host side of one operator, called by the driver: its definition, tiling and inference.
#include "host.h"

#include <algorithm>
#include <cstring>

#include "json.h"
#include "log/log.h"
#include "register/op_def_registry.h"

namespace hostsim {

std::string &ErrorText() {
  static std::string text;
  return text;
}

namespace {

const ops::OpDef *Definition() { return ops::Definitions().empty() ? nullptr : ops::Definitions()[0].get(); }

std::optional<gert::Operand> Operand(const OperandArgument &argument) {
  if (!argument.present) return std::nullopt;
  const std::vector<int64_t> dims(argument.dims, argument.dims + argument.rank);
  return gert::Operand{gert::StorageShape(gert::Shape(dims)),
                       gert::CompileTimeTensorDesc(static_cast<ge::DataType>(argument.type))};
}

void Fill(gert::OperatorContext &context, const Request &request) {
  context.name = Definition()->name;
  for (int i = 0; i < request.input_count; ++i) context.inputs.push_back(Operand(request.inputs[i]));
  for (int i = 0; i < request.output_count; ++i) context.outputs.push_back(Operand(request.outputs[i]));
  std::vector<gert::AttrValue> attrs;
  for (int i = 0; i < request.attr_count; ++i) {
    const AttrArgument &attr = request.attrs[i];
    switch (attr.kind) {
      case 'i': attrs.emplace_back(attr.whole); break;
      case 'b': attrs.emplace_back(attr.whole != 0); break;
      case 'f': attrs.emplace_back(static_cast<float>(attr.real)); break;
      default: attrs.emplace_back(std::string(attr.text)); break;
    }
  }
  context.attrs = gert::RuntimeAttrs(attrs);
}

std::string Text(const gert::Shape &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.GetDimNum(); ++i) out += (i ? "," : "") + std::to_string(shape.GetDim(i));
  return out + "]";
}

std::string ParamText(const std::unique_ptr<ops::OpParamDef> &param) {
  return Object({{"name", Quoted(param->name)},
                 {"optional", Truth(param->kind == ops::OPTIONAL)},
                 {"types", Listed(param->types, [](ge::DataType type) { return std::to_string(type); })}});
}

std::string AttrText(const std::unique_ptr<ops::OpAttrDef> &attr) {
  std::string value;
  if (const auto *whole = std::get_if<int64_t>(&attr->value)) value = std::to_string(*whole);
  if (const auto *truth = std::get_if<bool>(&attr->value)) value = Truth(*truth);
  if (const auto *real = std::get_if<float>(&attr->value)) value = std::to_string(*real);
  if (const auto *text = std::get_if<std::string>(&attr->value)) value = Quoted(*text);
  return Object({{"name", Quoted(attr->name)},
                 {"required", Truth(attr->kind == ops::REQUIRED)},
                 {"type", Quoted(attr->type)},
                 {"default", value}});
}

std::string FieldText(const optiling::TilingField &field) {
  return "[" + Quoted(field.name) + "," + Quoted(field.type) + "," + std::to_string(field.offset) + "," +
         std::to_string(field.size) + "," + std::to_string(field.count) + "]";
}

std::string FieldsText() {
  for (const auto &[type, fields] : optiling::TilingClasses()) {
    if (type == Definition()->name) return Listed(fields(), FieldText);
  }
  return "[]";
}

OpFunctions Functions(const ops::OpDef &definition) {
  OpFunctions functions = hostsim::Functions()[definition.name];
  if (definition.core.tiling) functions.tiling = definition.core.tiling;
  if (definition.infer_shape) functions.infer_shape = definition.infer_shape;
  if (definition.infer_type) functions.infer_type = definition.infer_type;
  return functions;
}

std::string Failure() {
  const std::string text = ErrorText().empty() ? "refused without a reason" : ErrorText();
  return "{\"error\":" + Quoted(text) + "}";
}

std::string Hex(const uint8_t *bytes, size_t count) {
  static const char digits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < count; ++i) out += digits[bytes[i] >> 4], out += digits[bytes[i] & 15];
  return out;
}

std::string Describe() {
  const ops::OpDef *definition = Definition();
  if (!definition) return "{\"error\":\"no operator is defined\"}";
  return Object({{"name", Quoted(definition->name)},
                 {"inputs", Listed(definition->inputs, ParamText)},
                 {"outputs", Listed(definition->outputs, ParamText)},
                 {"attrs", Listed(definition->attrs, AttrText)},
                 {"devices", Listed(definition->core.devices, Quoted)},
                 {"fields", FieldsText()}});
}

std::string Tile(const Request &request) {
  ErrorText().clear();
  gert::TilingContext context;
  Fill(context, request);
  context.platform = {static_cast<uint32_t>(request.cores), request.ub_bytes};
  const auto tiling = Functions(*Definition()).tiling;
  if (!tiling) return "{\"error\":\"the operator has no tiling\"}";
  if (tiling(&context) != ge::GRAPH_SUCCESS) return Failure();
  const auto *bytes = static_cast<const uint8_t *>(context.data.GetData());
  return Object({{"blocks", std::to_string(context.block_dim)},
                 {"key", std::to_string(context.tiling_key)},
                 {"together", Truth(context.schedule_mode == 1)},
                 {"workspace", Listed(context.workspaces, [](size_t size) { return std::to_string(size); })},
                 {"bytes", Quoted(Hex(bytes, context.data.GetDataSize()))}});
}

std::string Infer(const Request &request) {
  ErrorText().clear();
  const OpFunctions functions = Functions(*Definition());
  gert::InferShapeContext shapes;
  gert::InferDataTypeContext types;
  Fill(shapes, request);
  Fill(types, request);
  if (functions.infer_shape && functions.infer_shape(&shapes) != ge::GRAPH_SUCCESS) return Failure();
  if (functions.infer_type && functions.infer_type(&types) != ge::GRAPH_SUCCESS) return Failure();
  std::string out;
  for (int i = 0; i < request.output_count; ++i) {
    const gert::Shape *shape = shapes.GetOutputShape(i);  // null where an optional output is absent
    out += (i ? ",[" : "[") + (functions.infer_shape && shape ? Text(*shape) : "null") + "," +
           (functions.infer_type ? std::to_string(types.GetOutputDataType(i)) : "null") + "]";
  }
  return "{\"outputs\":[" + out + "]}";
}

template <typename F>
const char *Kept(F call) {
  static std::string text;
  text = call();
  return text.c_str();
}

}  // namespace
}  // namespace hostsim

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const char *hostsim_describe() { return hostsim::Kept(hostsim::Describe); }
EXPORTED const char *hostsim_tile(const hostsim::Request *request) {
  return hostsim::Kept([&] { return hostsim::Tile(*request); });
}
EXPORTED const char *hostsim_infer(const hostsim::Request *request) {
  return hostsim::Kept([&] { return hostsim::Infer(*request); });
}
