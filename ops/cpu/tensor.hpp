// Read torch tensors without torch's headers: DLPack, by its C exchange interface where torch has
// it (2.10 and up, some 20 ns a tensor), else by `__dlpack__` (some microseconds, equally right).
#pragma once

#include <Python.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "views.hpp"

namespace tierkv {

// Layout of dlpack.h, version 1.
namespace dlpack {

struct Tensor {
  void* data;
  struct {
    std::int32_t type, id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};

struct ExchangeApi {
  struct {
    std::uint32_t major, minor;
  } version;
  void* previous;
  void *allocator, *managed_from_object, *managed_to_object;
  int (*from_object)(void* object, Tensor* out);
  void* current_stream;
};

constexpr int kCpu = 1, kPinned = 3;
constexpr int kInt = 0;

}  // namespace dlpack

// A tensor's layout. Shape and strides (elements) belong to the tensor.
struct Array : dlpack::Tensor {
  static constexpr int kMaxDims = 4;

  std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(data) + byte_offset; }
  std::int64_t itemsize() const { return dtype.bits / 8; }
  std::int64_t width() const { return shape[ndim - 1]; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(width() * itemsize()); }
  bool holds(int code, int bits) const { return dtype.code == code && dtype.bits == bits; }
  bool addressable() const {
    return (device.type == dlpack::kCpu || device.type == dlpack::kPinned) && strides != nullptr &&
           dtype.lanes == 1 && dtype.bits % 8 == 0;
  }

  // Strides of dimensions of size one mean nothing.
  bool dense_from(int dim) const {
    std::int64_t expected = 1;
    for (int i = ndim - 1; i >= dim; --i) {
      if (shape[i] != 1 && strides[i] != expected) return false;
      expected *= shape[i];
    }
    return true;
  }

  bool has_shape(std::initializer_list<std::int64_t> sizes) const {
    const std::int64_t* own = shape;
    for (std::int64_t size : sizes) {
      if (*own++ != size) return false;
    }
    return true;
  }
};

inline const dlpack::ExchangeApi* exchange_of(PyTypeObject* type) {
  static PyTypeObject* known = nullptr;  // under the GIL; torch.Tensor nearly always
  static const dlpack::ExchangeApi* api = nullptr;
  if (type == known) return api;
  api = nullptr;
  PyObject* capsule = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  if (capsule != nullptr) {
    api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    Py_DECREF(capsule);
  }
  PyErr_Clear();
  if (api != nullptr && (api->version.major != 1 || api->from_object == nullptr)) api = nullptr;
  Py_XDECREF(known);
  known = type;
  Py_INCREF(known);
  return api;
}

// Reads an operator's arguments and notes whether each is as the kernels need it. What it gives
// is sensible only while `good`.
class Reader {
 public:
  bool good = true;

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    for (PyObject* capsule : held_) Py_DECREF(capsule);
  }

  // A tensor of `ndim` dimensions, all of size 0 if there is none such.
  Array any(PyObject* object, int ndim) {
    static std::int64_t nothing[Array::kMaxDims] = {};
    Array array;
    good = good && read(object, array) && array.addressable() && array.ndim == ndim;
    if (!good) array = {{nullptr, {dlpack::kCpu, 0}, ndim, {0, 8, 1}, nothing, nothing, 0}};
    return array;
  }

  // A contiguous tensor of exactly this shape.
  template <class T>
  T* dense(PyObject* object, std::initializer_list<std::int64_t> shape) {
    const Array array = any(object, static_cast<int>(shape.size()));
    good = good && array.holds(dlpack::kInt, 8 * sizeof(T)) && array.dense_from(0) && array.has_shape(shape);
    return reinterpret_cast<T*>(array.bytes());
  }

  // [rows, columns] with contiguous columns.
  template <class T>
  Matrix<T> matrix(PyObject* object) {
    const Array array = any(object, 2);
    good = good && array.holds(dlpack::kInt, 8 * sizeof(T)) && array.dense_from(1);
    return {reinterpret_cast<T*>(array.bytes()), array.strides[0], array.shape[0], array.shape[1]};
  }

  SlotTable slot_table(PyObject* object) {
    const Array array = any(object, 2);
    const bool wide = array.holds(dlpack::kInt, 32);
    good = good && (wide || array.holds(dlpack::kInt, 16)) && array.dense_from(1);
    return {array.bytes(), wide, array.strides[0], array.shape[0], array.shape[1]};
  }

  // Entry `i` of a Tensor[] argument.
  Array part(PyObject* list, Py_ssize_t i, int ndim) { return any(PyList_GET_ITEM(list, i), ndim); }

  // Number of entries, which must be `expected` if that is not negative.
  int parts(PyObject* list, Py_ssize_t expected = -1) {
    const Py_ssize_t count = PyList_Check(list) ? PyList_GET_SIZE(list) : -1;
    good = good && count >= 0 && count <= kMaxParts && (expected < 0 || count == expected);
    return good ? static_cast<int>(count) : 0;
  }

  // Rows of bytes addressed by up to two indices; `outer` and `inner` name their dimensions, -1 is
  // none. The last dimension must be contiguous and like `like`'s in width and dtype.
  Rows rows(const Array& array, int outer, int inner, const Array& like) {
    good = good && array.dense_from(array.ndim - 1) && array.holds(like.dtype.code, like.dtype.bits) &&
           array.width() == like.width();
    const auto step = [&](int dim) { return dim < 0 ? 0 : array.strides[dim] * array.itemsize(); };
    return {array.bytes(), step(outer), step(inner)};
  }

  // [B, Q, K, width] addressed by row and flat place q * K + k.
  Rows flat_places(const Array& array, const Array& like) {
    good = good && (array.shape[1] == 1 || array.strides[1] == array.shape[2] * array.strides[2]);
    return rows(array, 0, 2, like);
  }

 private:
  bool read(PyObject* object, Array& out) {
    if (const auto* api = exchange_of(Py_TYPE(object))) {
      const bool read = api->from_object(object, &out) == 0;
      if (!read) PyErr_Clear();
      return read;
    }
    PyObject* capsule = PyObject_CallMethod(object, "__dlpack__", nullptr);
    const void* tensor = capsule == nullptr ? nullptr : PyCapsule_GetPointer(capsule, "dltensor");
    PyErr_Clear();
    if (capsule != nullptr) held_.push_back(capsule);  // shape and strides live in it
    if (tensor == nullptr) return false;
    static_cast<dlpack::Tensor&>(out) = *static_cast<const dlpack::Tensor*>(tensor);
    return true;
  }

  std::vector<PyObject*> held_;
};

}  // namespace tierkv
