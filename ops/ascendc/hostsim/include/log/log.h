// The error log; the driver raises its text.
#pragma once

#include <cstdio>
#include <string>

namespace hostsim {

std::string &ErrorText();

template <typename... Values>
void LogError(const char *format, Values... values) {
  char text[1024];
  if constexpr (sizeof...(values) == 0) {
    std::snprintf(text, sizeof text, "%s", format);
  } else {
    std::snprintf(text, sizeof text, format, values...);
  }
  ErrorText() += (ErrorText().empty() ? "" : "; ") + std::string(text);
}

}  // namespace hostsim

#define OP_LOGE(name, ...) ((void)(name), ::hostsim::LogError(__VA_ARGS__))
#define OP_LOGW(name, ...) ((void)(name))
#define OP_LOGI(name, ...) ((void)(name))
#define OP_LOGD(name, ...) ((void)(name))
