// Tiling data, declared once and used by both sides: on the host a class whose fields are set one by
// one, in the kernel a plain struct with the same layout, as CANN generates it.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#ifdef TIERKV_HOSTSIM_KERNEL

#define BEGIN_TILING_DATA_DEF(Name) struct Name {
#define TILING_DATA_FIELD_DEF(type, field) type field;
#define TILING_DATA_FIELD_DEF_ARR(type, length, field) type field[length];
#define TILING_DATA_FIELD_DEF_STRUCT(type, field) type field;
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(OpType, Name) using HostsimTiling##OpType = Name;

#else

#include "exe_graph/runtime/contexts.h"

namespace optiling {

struct TilingField {
  std::string name, type;
  size_t offset, size, count;
};

class TilingDef {
 public:
  TilingDef() = default;
  TilingDef(const TilingDef &) = delete;
  TilingDef &operator=(const TilingDef &) = delete;

  void SaveToBuffer(void *buffer, size_t capacity) const {
    if (GetDataSize() <= capacity) std::memcpy(buffer, bytes_.data(), bytes_.size());
  }
  size_t GetDataSize() const { return bytes_.size(); }
  const std::vector<TilingField> &Fields() const { return fields_; }

 protected:
  // Offset of a new field, laid out as in a C struct.
  size_t Append(const char *name, const char *type, size_t size, size_t count) {
    const size_t offset = (end_ + size - 1) / size * size;
    end_ = offset + size * count;
    widest_ = size > widest_ ? size : widest_;
    bytes_.resize((end_ + widest_ - 1) / widest_ * widest_);
    fields_.push_back({name, type, offset, size, count});
    return offset;
  }
  uint8_t *At(size_t offset) { return bytes_.data() + offset; }
  const uint8_t *At(size_t offset) const { return bytes_.data() + offset; }

 private:
  size_t end_ = 0, widest_ = 1;
  std::vector<uint8_t> bytes_;
  std::vector<TilingField> fields_;
};

using TilingFields = std::vector<TilingField>;
inline std::vector<std::pair<std::string, std::function<TilingFields()>>> &TilingClasses() {
  static std::vector<std::pair<std::string, std::function<TilingFields()>>> classes;
  return classes;
}

}  // namespace optiling

#define BEGIN_TILING_DATA_DEF(Name) class Name : public ::optiling::TilingDef {
#define TILING_DATA_FIELD_DEF(type, field)                                \
 public:                                                                  \
  void set_##field(type value) { std::memcpy(At(field##_at_), &value, sizeof value); } \
  type get_##field() const {                                              \
    type value;                                                           \
    std::memcpy(&value, At(field##_at_), sizeof value);                   \
    return value;                                                         \
  }                                                                       \
                                                                          \
 private:                                                                 \
  size_t field##_at_ = Append(#field, #type, sizeof(type), 1);
#define TILING_DATA_FIELD_DEF_ARR(type, length, field)                    \
 public:                                                                  \
  void set_##field(const type *values) { std::memcpy(At(field##_at_), values, sizeof(type) * (length)); } \
  type *get_##field() { return reinterpret_cast<type *>(At(field##_at_)); } \
                                                                          \
 private:                                                                 \
  size_t field##_at_ = Append(#field, #type, sizeof(type), length);
#define END_TILING_DATA_DEF }
// In a header: several files may register the same class.
#define REGISTER_TILING_DATA_CLASS(OpType, Name)                          \
  [[maybe_unused]] static const bool hostsim_tiling_##OpType =            \
      (::optiling::TilingClasses().emplace_back(#OpType, [] { return Name().Fields(); }), true);

#endif
