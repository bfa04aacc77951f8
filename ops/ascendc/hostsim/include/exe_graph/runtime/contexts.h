// What tiling and inference are called with. Optional inputs that are absent have no instance: plain
// indices count those that are there, the Optional and Required forms count the definition's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exe_graph/runtime/runtime_attrs.h"
#include "exe_graph/runtime/shape.h"
#include "graph/types.h"

namespace fe {

struct PlatFormInfos {
  uint32_t vector_cores;
  uint64_t ub_bytes;
};

}  // namespace fe

namespace gert {

class CompileTimeTensorDesc {
 public:
  explicit CompileTimeTensorDesc(ge::DataType type) : type_(type) {}
  ge::DataType GetDataType() const { return type_; }
  ge::Format GetStorageFormat() const { return ge::FORMAT_ND; }
  ge::Format GetOriginFormat() const { return ge::FORMAT_ND; }

 private:
  ge::DataType type_;
};

// One tensor of a call.
struct Operand {
  StorageShape shape;
  CompileTimeTensorDesc desc;
};

class TilingData {
 public:
  void *GetData() { return bytes_.data(); }
  const void *GetData() const { return bytes_.data(); }
  size_t GetCapacity() const { return bytes_.size(); }
  size_t GetDataSize() const { return size_; }
  void SetDataSize(size_t size) { size_ = size; }

 private:
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(16384);
  size_t size_ = 0;
};

// What every context gives: inputs, outputs, attributes, name.
class OperatorContext {
 public:
  std::string name;
  std::vector<std::optional<Operand>> inputs;  // as defined; empty: absent
  std::vector<std::optional<Operand>> outputs;
  RuntimeAttrs attrs{{}};

  const char *GetNodeName() const { return name.c_str(); }
  const char *GetNodeType() const { return name.c_str(); }
  const RuntimeAttrs *GetAttrs() const { return &attrs; }
  size_t GetComputeNodeInputNum() const {
    size_t count = 0;
    for (const auto &input : inputs) count += input.has_value();
    return count;
  }

 protected:
  const Operand *Instance(size_t index) const {
    for (const auto &input : inputs) {
      if (input && index-- == 0) return &*input;
    }
    return nullptr;
  }
  static const Operand *At(const std::vector<std::optional<Operand>> &list, size_t index) {
    return index < list.size() && list[index] ? &*list[index] : nullptr;
  }
  static const StorageShape *ShapeOf(const Operand *operand) { return operand ? &operand->shape : nullptr; }
  static const CompileTimeTensorDesc *DescOf(const Operand *operand) { return operand ? &operand->desc : nullptr; }
};

class TilingContext : public OperatorContext {
 public:
  const StorageShape *GetInputShape(size_t i) const { return ShapeOf(Instance(i)); }
  const StorageShape *GetOptionalInputShape(size_t i) const { return ShapeOf(At(inputs, i)); }
  const StorageShape *GetRequiredInputShape(size_t i) const { return ShapeOf(At(inputs, i)); }
  const StorageShape *GetOutputShape(size_t i) const { return ShapeOf(At(outputs, i)); }
  const CompileTimeTensorDesc *GetInputDesc(size_t i) const { return DescOf(Instance(i)); }
  const CompileTimeTensorDesc *GetOptionalInputDesc(size_t i) const { return DescOf(At(inputs, i)); }
  const CompileTimeTensorDesc *GetRequiredInputDesc(size_t i) const { return DescOf(At(inputs, i)); }
  const CompileTimeTensorDesc *GetOutputDesc(size_t i) const { return DescOf(At(outputs, i)); }

  fe::PlatFormInfos *GetPlatformInfo() const { return &platform; }
  TilingData *GetRawTilingData() { return &data; }
  ge::graphStatus SetBlockDim(uint32_t blocks) {
    block_dim = blocks;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetBlockDim() const { return block_dim; }
  ge::graphStatus SetTilingKey(uint64_t key) {
    tiling_key = key;
    return ge::GRAPH_SUCCESS;
  }
  uint64_t GetTilingKey() const { return tiling_key; }
  ge::graphStatus SetScheduleMode(uint32_t mode) {
    schedule_mode = mode;
    return ge::GRAPH_SUCCESS;
  }
  size_t *GetWorkspaceSizes(size_t count) {
    workspaces.resize(count);
    return workspaces.data();
  }

  mutable fe::PlatFormInfos platform{};
  TilingData data;
  uint32_t block_dim = 1, schedule_mode = 0;
  uint64_t tiling_key = 0;
  std::vector<size_t> workspaces;
};

class InferShapeContext : public OperatorContext {
 public:
  const Shape *GetInputShape(size_t i) const { return Bare(Instance(i)); }
  const Shape *GetOptionalInputShape(size_t i) const { return Bare(At(inputs, i)); }
  const Shape *GetRequiredInputShape(size_t i) const { return Bare(At(inputs, i)); }
  Shape *GetOutputShape(size_t i) {
    return i < outputs.size() && outputs[i] ? &outputs[i]->shape.MutableStorageShape() : nullptr;
  }

 private:
  static const Shape *Bare(const Operand *operand) { return operand ? &operand->shape.GetStorageShape() : nullptr; }
};

class InferDataTypeContext : public OperatorContext {
 public:
  ge::DataType GetInputDataType(size_t i) const { return Bare(Instance(i)); }
  ge::DataType GetOptionalInputDataType(size_t i) const { return Bare(At(inputs, i)); }
  ge::DataType GetRequiredInputDataType(size_t i) const { return Bare(At(inputs, i)); }
  ge::DataType GetOutputDataType(size_t i) const { return Bare(At(outputs, i)); }
  ge::graphStatus SetOutputDataType(size_t i, ge::DataType type) {
    if (i >= outputs.size() || !outputs[i]) return ge::GRAPH_FAILED;
    outputs[i]->desc = CompileTimeTensorDesc(type);
    return ge::GRAPH_SUCCESS;
  }

 private:
  static ge::DataType Bare(const Operand *operand) { return operand ? operand->desc.GetDataType() : ge::DT_UNDEFINED; }
};

using TilingFunc = ge::graphStatus (*)(TilingContext *);
using InferShapeFunc = ge::graphStatus (*)(InferShapeContext *);
using InferDataTypeFunc = ge::graphStatus (*)(InferDataTypeContext *);

}  // namespace gert
