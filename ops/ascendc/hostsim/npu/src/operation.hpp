// One call of a custom operator, gathered by a generated aclnn function and run by the driver.
#pragma once

#include <string>

#include "executor.hpp"

namespace hostnpu {

class Operation {
 public:
  explicit Operation(const char* type) : type_(type) {}

  // A null tensor is an optional one that is absent.
  void add(const char* name, const aclTensor* tensor);
  void add(const char* name, std::int64_t number);
  void add(const char* name, bool flag);
  void add(const char* name, double number);
  void add(const char* name, const char* text);
  void add(const char* name, const aclIntArray* numbers);

  // The first phase: asks the driver whether it takes the arguments, that is the tiling.
  int plan(std::uint64_t* workspace, aclOpExecutor** executor);

 private:
  std::string text() const;

  const char* type_;
  std::string tensors_, attributes_, wrong_;
};

}  // namespace hostnpu
