// Just enough to write JSON.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

namespace hostsim {

inline std::string Quoted(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

inline std::string Truth(bool value) { return value ? "true" : "false"; }

// Values are JSON already.
inline std::string Object(std::initializer_list<std::pair<const char *, std::string>> fields) {
  std::string out = "{";
  for (const auto &[name, value] : fields) out += (out.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":" + value;
  return out + "}";
}

template <typename Items, typename F>
std::string Listed(const Items &items, F text) {
  std::string out = "[";
  for (const auto &item : items) out += (out.size() > 1 ? "," : "") + text(item);
  return out + "]";
}

}  // namespace hostsim
