// A call is handed to the driver as JSON: addresses, shapes, types and attributes. The memory is
// looked at when the operator runs, at a replay again.
#include "operation.hpp"

namespace hostnpu {
namespace {

constexpr std::uint64_t kWorkspace = 512;  // so that callers show that they bring one

// Phase 0 plans, phase 1 runs. 0, or a failure with its text in `error`.
using Driver = int (*)(int phase, const char* call, char* error, std::size_t room);
Driver driver = nullptr;

std::string ask(int phase, const std::string& call) {
  if (!driver) return "no driver runs custom operators (hostsim.npu.custom.installed)";
  std::string error(std::size_t{1} << 14, '\0');
  const int code = driver(phase, call.c_str(), error.data(), error.size());
  return code == 0 ? "" : error.c_str();
}

void field(std::string& list, const char* name, const std::string& value) {
  if (!list.empty()) list += ",";
  list += "\"" + std::string(name) + "\":" + value;
}

std::string numbers(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const auto value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "[" + text + "]";
}

}  // namespace

void Operation::add(const char* name, const aclTensor* tensor) {
  if (!tensor) return field(tensors_, name, "null");
  if (const auto wrong = refusal(*tensor); !wrong.empty() && wrong_.empty()) wrong_ = std::string(name) + ": " + wrong;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor->data) +
                     static_cast<std::uintptr_t>(tensor->offset) * item_size(tensor->type);
  field(tensors_, name,
        "[" + std::to_string(begin) + "," + std::to_string(tensor->type) + "," + numbers(tensor->sizes) + "]");
}

void Operation::add(const char* name, std::int64_t number) { field(attributes_, name, std::to_string(number)); }
void Operation::add(const char* name, bool flag) { field(attributes_, name, flag ? "true" : "false"); }
void Operation::add(const char* name, double number) { field(attributes_, name, std::to_string(number)); }
void Operation::add(const char* name, const char* text) { field(attributes_, name, "\"" + std::string(text) + "\""); }
void Operation::add(const char* name, const aclIntArray* array) { field(attributes_, name, numbers(array->values)); }

std::string Operation::text() const {
  return "{\"type\":\"" + std::string(type_) + "\",\"tensors\":{" + tensors_ + "},\"attributes\":{" + attributes_ +
         "}}";
}

int Operation::plan(std::uint64_t* workspace, aclOpExecutor** executor) {
  const std::string call = text();
  const std::string wrong = wrong_.empty() ? ask(0, call) : wrong_;
  if (!wrong.empty()) return fail(kInvalid, std::string(type_) + ": " + wrong);
  *workspace = kWorkspace;
  *executor = new aclOpExecutor{[call, type = std::string(type_)] {
    const auto error = ask(1, call);
    if (!error.empty()) throw std::runtime_error(type + ": " + error);
  }};
  return kOk;
}

}  // namespace hostnpu

extern "C" void hostnpu_set_driver(hostnpu::Driver driver) { hostnpu::driver = driver; }
