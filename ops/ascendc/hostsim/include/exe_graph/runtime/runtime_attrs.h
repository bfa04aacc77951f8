// An operator's attributes, by their place in its definition.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace gert {

using AttrValue = std::variant<int64_t, float, bool, std::string>;

class RuntimeAttrs {
 public:
  explicit RuntimeAttrs(std::vector<AttrValue> values) : values_(std::move(values)) {}

  // Null if there is no such attribute, or if it has another type.
  template <typename T>
  const T *GetAttrPointer(size_t i) const {
    if (i >= values_.size()) return nullptr;
    if constexpr (std::is_same_v<T, char>) {
      const auto *text = std::get_if<std::string>(&values_[i]);
      return text ? text->c_str() : nullptr;
    } else {
      return std::get_if<T>(&values_[i]);
    }
  }
  const int64_t *GetInt(size_t i) const { return GetAttrPointer<int64_t>(i); }
  const bool *GetBool(size_t i) const { return GetAttrPointer<bool>(i); }
  const float *GetFloat(size_t i) const { return GetAttrPointer<float>(i); }
  const char *GetStr(size_t i) const { return GetAttrPointer<char>(i); }
  size_t GetAttrNum() const { return values_.size(); }

 private:
  std::vector<AttrValue> values_;
};

}  // namespace gert
