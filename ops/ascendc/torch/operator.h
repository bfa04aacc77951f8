// A kernel of the dispatcher that launches the CANN operator of one description.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "call.h"
#include "description.h"
#include "records.h"

namespace tierkv {

inline std::optional<acl::DataType> data_type(at::ScalarType type) {
  switch (type) {
    case at::kChar: return acl::kInt8;
    case at::kByte: return acl::kUint8;
    case at::kShort: return acl::kInt16;
    case at::kInt: return acl::kInt32;
    case at::kLong: return acl::kInt64;
    default: return std::nullopt;
  }
}

// The type that a tensor must have; none for tables, whose tiling knows.
inline std::optional<at::ScalarType> wanted_type(const std::string& name) {
  if (name == "tables" || name == "slot_of") return std::nullopt;
  if (name == "kind") return at::kChar;
  return name == "counters" ? at::kLong : at::kInt;
}

// What is known of an operator once it was called.
struct Known {
  const c10::FunctionSchema& schema;
  std::string type;
  std::vector<Word> words;
  Functions functions;

  Known(const Description& description, const c10::FunctionSchema& declared)
      : schema(declared), type(description.type), words(read_words(description.words, declared)), functions(type) {}

  const std::string& name(const Word& word) const { return schema.arguments()[word.argument].name(); }
  bool apart() const { return words.back().kind == Word::kBytes; }
};

// One call of the torch operator.
class Launches {
 public:
  Launches(const Known& known, c10::ArrayRef<c10::IValue> arguments)
      : known_(known), arguments_(arguments), count_(count()), device_(device()) {}

  void run() {
    const c10::OptionalDeviceGuard guard(device_);
    for (turn_ = 0; turn_ < count_; ++turn_) {
      Words words(known_.functions);
      for (const Word& word : known_.words) add(words, word);
      launch(words);
    }
  }

 private:
  // As many as the lists have tensors; one where there is no list of records.
  std::size_t count() const {
    std::optional<std::size_t> count;
    for (const Word& word : known_.words) {
      if (word.kind != Word::kRecords) continue;
      const std::size_t size = arguments_[word.argument].toListRef().size();
      if (word.may_be_empty && size == 0) continue;
      if (!count) count = size;
      TORCH_CHECK(size == *count, where(word), " must have ", *count, " tensors, got ", size);
    }
    return count.value_or(1);
  }

  // Of the first tensor that brought the call here; all others must share it.
  std::optional<c10::Device> device() const {
    for (const c10::IValue& argument : arguments_) {
      if (argument.isTensor() && argument.toTensor().is_privateuseone()) return argument.toTensor().device();
      if (!argument.isList()) continue;
      for (const c10::IValue& tensor : argument.toListRef()) {
        if (tensor.toTensor().is_privateuseone()) return tensor.toTensor().device();
      }
    }
    return std::nullopt;
  }

  void add(Words& words, const Word& word) {
    switch (word.kind) {
      case Word::kConstant:
      case Word::kAbsent: return words.add(word.number);
      case Word::kNumber: {
        const c10::IValue& number = arguments_[word.argument];
        return words.add(number.isBool() ? number.toBool() : number.toInt());
      }
      case Word::kBytes: return words.add(row_bytes(element(known_.words.front(), turn_)));
      case Word::kTensor: return add_tensor(words, word);
      case Word::kRecords: return add_records(words, word);
    }
  }

  at::Tensor element(const Word& word, std::size_t i) const {
    const auto tensors = arguments_[word.argument].toListRef();
    TORCH_CHECK(i < tensors.size(), where(word), " must have more than ", i, " tensors, got ", tensors.size());
    return tensors[i].toTensor();
  }

  void add_tensor(Words& words, const Word& word) {
    at::Tensor tensor = word.element < 0 ? arguments_[word.argument].toTensor() : element(word, word.element);
    check_device(word, tensor);
    const auto got = tensor.scalar_type();
    const auto wanted = wanted_type(known_.name(word)), type = wanted ? wanted : got;
    TORCH_CHECK(got == type, where(word), " must be ", *type, ", got ", got);
    TORCH_CHECK(data_type(got).has_value(), where(word), " must hold whole numbers, got ", got);
    TORCH_CHECK(tensor.is_contiguous(), where(word), " must be contiguous, got strides ", tensor.strides(), " of ",
                tensor.sizes());
    if (word.copied && turn_ + 1 < count_) tensor = copies_.emplace_back(tensor.clone());
    words.add(tensor.sizes().vec(), *data_type(got), tensor.data_ptr());
  }

  // Records are bytes, whatever they hold.
  void add_records(Words& words, const Word& word) const {
    if (word.may_be_empty && arguments_[word.argument].toListRef().empty()) {
      return words.add({0}, acl::kUint8, nullptr);
    }
    const at::Tensor rows = element(word, turn_);
    check_device(word, rows);
    const std::int64_t stride = row_stride(rows);
    TORCH_CHECK(stride >= 0 && (known_.apart() || rows.is_contiguous()), where(word), "[", turn_, "] must be ",
                known_.apart() ? "rows at one distance" : "contiguous", ", got strides ", rows.strides(), " of ",
                rows.sizes());
    words.add(byte_sizes(rows, stride), acl::kUint8, rows.data_ptr());
  }

  void check_device(const Word& word, const at::Tensor& tensor) const {
    TORCH_CHECK(tensor.device() == *device_, where(word), " must be on ", *device_, ", got ", tensor.device());
  }

  void launch(Words& words) const {
    std::uint64_t bytes = 0;
    acl::Executor* executor = nullptr;
    check(words.plan(bytes, executor), "GetWorkspaceSize");
    at::Tensor workspace;  // goes back to the stream's allocator, so no earlier than the operator ran
    if (bytes > 0) workspace = at::empty({static_cast<std::int64_t>(bytes)}, at::device(*device_).dtype(at::kByte));
    void* memory = bytes > 0 ? workspace.data_ptr() : nullptr;
    check(known_.functions.run(memory, bytes, executor, Device::get().stream(device_->index())), "");
  }

  void check(int status, const char* phase) const {
    TORCH_CHECK(status == 0, known_.schema.name(), ": aclnn", known_.type, phase, " returned ", status, ": ",
                Device::get().recent_error());
  }

  std::string where(const Word& word) const { return known_.schema.name() + ": " + known_.name(word); }

  const Known& known_;
  c10::ArrayRef<c10::IValue> arguments_;
  std::size_t count_, turn_ = 0;
  std::optional<c10::Device> device_;
  std::vector<at::Tensor> copies_;
};

class Operator final : public c10::OperatorKernel {
 public:
  explicit Operator(const Description& description) : description_(description) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    // Not before the first call: the schema and the library may come later than this kernel.
    std::call_once(once_, [&] { known_ = std::make_unique<Known>(description_, handle.schema()); });
    const std::size_t count = known_->schema.arguments().size();
    Launches(*known_, torch::jit::last(*stack, count)).run();
    torch::jit::drop(*stack, count);
  }

 private:
  const Description& description_;
  std::once_flag once_;
  std::unique_ptr<Known> known_;
};

}  // namespace tierkv
