// Shapes as the host side sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace gert {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  size_t GetDimNum() const { return dims_.size(); }
  int64_t GetDim(size_t i) const { return i < dims_.size() ? dims_[i] : INT64_MIN; }
  int64_t operator[](size_t i) const { return GetDim(i); }
  int64_t GetShapeSize() const {
    int64_t size = 1;
    for (const int64_t dim : dims_) size *= dim;
    return size;
  }
  bool IsScalar() const { return dims_.empty(); }
  void SetDimNum(size_t count) { dims_.resize(count); }
  void SetDim(size_t i, int64_t value) { dims_.at(i) = value; }
  Shape &AppendDim(int64_t value) {
    dims_.push_back(value);
    return *this;
  }
  bool operator==(const Shape &other) const { return dims_ == other.dims_; }
  bool operator!=(const Shape &other) const { return dims_ != other.dims_; }

 private:
  std::vector<int64_t> dims_;
};

class StorageShape {
 public:
  StorageShape() = default;
  explicit StorageShape(Shape shape) : shape_(std::move(shape)) {}

  const Shape &GetStorageShape() const { return shape_; }
  const Shape &GetOriginShape() const { return shape_; }
  Shape &MutableStorageShape() { return shape_; }

 private:
  Shape shape_;
};

}  // namespace gert
