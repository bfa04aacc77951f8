// The two things that the process has one of: the operator library, and how to ask for a stream.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <string>

#include <c10/util/Exception.h>

#include "acl.h"

namespace tierkv {

// Gives the stream that a device's operators currently go to.
using StreamHook = acl::Stream (*)(int device);

class Device {
 public:
  static Device& get() {
    static Device device;
    return device;
  }

  // Null, or what went wrong. A library stays open: kernels keep addresses of its functions.
  const char* open(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    library_ = library;
    return nullptr;
  }

  void set_stream_hook(StreamHook hook) { stream_ = hook; }

  acl::Stream stream(int device) const {
    TORCH_CHECK(stream_ != nullptr, "tierkv: no one says which stream is current (call tierkv_ascendc.binding.load)");
    return stream_.load()(device);
  }

  // The library's function, or of what it was linked to; null if there is none.
  template <class Function>
  Function find(const std::string& name) const {
    TORCH_CHECK(library_ != nullptr, "tierkv: the operator library is not open (call tierkv_ascendc.binding.load)");
    return reinterpret_cast<Function>(dlsym(library_, name.c_str()));
  }

  template <class Function>
  Function require(const std::string& name) const {
    auto* function = find<Function>(name);
    TORCH_CHECK(function != nullptr, "tierkv: the operator library lacks ", name,
                " (build it with ops/ascendc/build.sh, install it)");
    return function;
  }

  // What CANN last said on this thread.
  std::string recent_error() const {
    auto* say = find<acl::RecentError>("aclGetRecentErrMsg");
    const char* text = say == nullptr ? nullptr : say();
    return text == nullptr ? "no details" : text;
  }

 private:
  std::atomic<void*> library_ = nullptr;
  std::atomic<StreamHook> stream_ = nullptr;
};

}  // namespace tierkv
