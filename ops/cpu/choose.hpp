// A policy by its operator's name, with its tables read from Python.
#pragma once

#include <cstring>

#include "place_call.hpp"
#include "policies.hpp"

namespace tierkv {

// `arguments` is the list of numbers between plan and tables: how to hash, or nothing.
inline AnyPolicy choose(const char* name, PlaceCall& call, nanobind::handle arguments) {
  const auto is = [&](const char* known) { return std::strcmp(name, known) == 0; };
  PyObject* list = arguments.ptr();
  call.read.good = call.read.good && PyList_Check(list);
  const bool hashed = call.read.good && PyList_GET_SIZE(list) > 0;
  const int hashing = hashed ? nanobind::cast<int>(nanobind::handle(PyList_GET_ITEM(list, 0))) : 0;
  if (is("set_fifo")) return read_set_fifo(call, hashing);
  if (is("clock")) return read_clock(call, hashing);
  if (is("lru")) return read_lru(call);
  if (is("set_lru")) return read_set_lru(call);
  if (is("sieve")) return read_sieve(call);
  if (is("s3_fifo")) return read_s3_fifo(call);
  if (is("last_step")) return read_plain<LastStep>(call);
  if (is("unbounded")) return read_plain<Unbounded>(call);
  call.read.good = false;
  return {};
}

}  // namespace tierkv
