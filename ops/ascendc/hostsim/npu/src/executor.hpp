// What the first phase of an aclnn function hands to the second: a task that holds its arguments.
#pragma once

#include "runtime.hpp"
#include "tensor.hpp"

struct aclOpExecutor {
  hostnpu::Task task;
};

namespace hostnpu {

// The second phase; `executor` is used up. A task that needs workspace checks it by itself.
inline int execute(aclOpExecutor* executor, void* stream) {
  const std::unique_ptr<aclOpExecutor> owner(executor);
  if (!owner) return fail(kInvalid, "execute: no executor, the first phase failed");
  return launch(stream, std::move(executor->task));
}

}  // namespace hostnpu
