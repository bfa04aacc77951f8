// The end of a kernel library: what the driver looks up. Included after the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hostsim {

template <typename... Arguments, size_t... index>
void CallWith(void (*kernel)(Arguments...), uint8_t **arguments, std::index_sequence<index...>) {
  kernel(arguments[index]...);
}

template <typename... Arguments>
void Call(void (*kernel)(Arguments...), uint8_t **arguments) {
  CallWith(kernel, arguments, std::index_sequence_for<Arguments...>());
}

template <typename... Arguments>
constexpr int Count(void (*)(Arguments...)) {
  return sizeof...(Arguments);
}

}  // namespace hostsim

#define HOSTSIM_ENTRY(kernel)                                                                                    \
  extern "C" __attribute__((visibility("default"))) void hostsim_entry(uint8_t **arguments) {                    \
    ::hostsim::Call(&kernel, arguments);                                                                         \
  }                                                                                                              \
  extern "C" __attribute__((visibility("default"))) int hostsim_arguments() { return ::hostsim::Count(&kernel); } \
  extern "C" __attribute__((visibility("default"))) uint64_t hostsim_tiling_bytes() { return sizeof(HOSTSIM_TILING); }
