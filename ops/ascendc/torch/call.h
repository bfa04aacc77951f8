// One launch: the arguments of an aclnn function, gathered as machine words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device.h"

namespace tierkv {

constexpr std::size_t kMaxWords = 32;

// Call a function of integers and pointers whose number is known only now. Each such argument is
// one register or stack slot of 8 bytes under the C conventions of x86-64 and AArch64, and a bool
// is the low byte of one, so one type of function a number of arguments stands for all.
template <std::size_t... I>
int call_with(void* function, const std::uint64_t* words, std::index_sequence<I...>) {
  return reinterpret_cast<int (*)(decltype(I, std::uint64_t{})...)>(function)(words[I]...);
}

template <std::size_t N>
int call_n(void* function, const std::uint64_t* words) {
  return call_with(function, words, std::make_index_sequence<N>{});
}

template <std::size_t... N>
int call(void* function, const std::vector<std::uint64_t>& words, std::index_sequence<N...>) {
  using Caller = int (*)(void*, const std::uint64_t*);
  static constexpr std::array<Caller, sizeof...(N)> callers = {call_n<N>...};
  return callers.at(words.size())(function, words.data());
}

// The functions of one operator, found when it is first used.
struct Functions {
  void* plan = nullptr;  // gives the size of the workspace and an executor
  acl::Run run = nullptr;
  acl::CreateTensor create = nullptr;
  acl::DestroyTensor destroy = nullptr;

  explicit Functions(const std::string& type) {
    const Device& device = Device::get();
    plan = device.require<void*>("aclnn" + type + "GetWorkspaceSize");
    run = device.require<acl::Run>("aclnn" + type);
    create = device.require<acl::CreateTensor>("aclCreateTensor");
    destroy = device.require<acl::DestroyTensor>("aclDestroyTensor");
  }
};

class Words {
 public:
  explicit Words(const Functions& functions) : functions_(functions) {}
  Words(const Words&) = delete;
  ~Words() {
    for (const acl::Tensor* tensor : tensors_) functions_.destroy(tensor);
  }

  void add(std::int64_t number) { words_.push_back(static_cast<std::uint64_t>(number)); }

  void add(const std::vector<std::int64_t>& sizes, acl::DataType type, void* data) {
    std::vector<std::int64_t> strides(sizes.size(), 1);
    for (std::size_t dim = sizes.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * sizes[dim];
    acl::Tensor* tensor = functions_.create(sizes.data(), sizes.size(), type, strides.data(), 0, acl::kFormatNd,
                                            sizes.data(), sizes.size(), data);
    TORCH_CHECK(tensor != nullptr, "tierkv: aclCreateTensor failed: ", Device::get().recent_error());
    tensors_.push_back(tensor);
    add(reinterpret_cast<std::int64_t>(tensor));
  }

  // The first phase; gives its status.
  int plan(std::uint64_t& workspace, acl::Executor*& executor) {
    std::vector<std::uint64_t> words = words_;
    words.push_back(reinterpret_cast<std::uint64_t>(&workspace));
    words.push_back(reinterpret_cast<std::uint64_t>(&executor));
    return call(functions_.plan, words, std::make_index_sequence<kMaxWords + 1>{});
  }

 private:
  const Functions& functions_;
  std::vector<std::uint64_t> words_;
  std::vector<const acl::Tensor*> tensors_;
};

}  // namespace tierkv
