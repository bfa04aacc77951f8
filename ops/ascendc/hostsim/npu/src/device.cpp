// The device, errors, and calls without effect here.
#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "runtime.hpp"

using namespace hostnpu;

namespace {

constexpr int kCores = 24, kVectorCores = 48;

std::set<std::string>& unsupported() {
  static auto* const names = new std::set<std::string>;
  return *names;
}

}  // namespace

extern "C" {

int strcpy_s(char* to, std::size_t room, const char* from);

int aclInit(const char*) { return kOk; }
int aclFinalize() { return kOk; }
const char* aclGetRecentErrMsg() {
  static thread_local std::string text;
  Guard guard(runtime().lock);
  text.swap(runtime().message);
  runtime().message.clear();
  return text.c_str();
}

// Every entry of CANN without a stand-in of its own ends here: nothing fails silently.
int hostnpu_unsupported(const char* name) {
  Guard guard(runtime().lock);
  unsupported().insert(name);
  return fail(kUnsupported, std::string(name) + ": the host device has no such function");
}

// Names of the functions asked for in vain, one a line.
const char* hostnpu_unsupported_calls() {
  static thread_local std::string text;
  text.clear();
  Guard guard(runtime().lock);
  for (const auto& name : unsupported()) text += name + "\n";
  return text.c_str();
}

int aclopCompileAndExecute(const char* type, int, void**, void**, int, void**, void**, void*, int, int, const char*,
                           void*) {
  return fail(kUnsupported, std::string("aclopCompileAndExecute: the host device has no operator ") + type);
}
int aclopCompileAndExecuteV2(const char* type, int, void**, void**, int, void**, void**, void*, int, int, const char*,
                             void*) {
  return fail(kUnsupported, std::string("aclopCompileAndExecuteV2: the host device has no operator ") + type);
}

int aclrtGetDeviceCount(std::uint32_t* count) {
  *count = 1;
  return kOk;
}
int aclrtSetDevice(std::int32_t device) {
  return device == 0 ? kOk : fail(kInvalid, "aclrtSetDevice: only device 0 exists");
}
int aclrtResetDevice(std::int32_t) { return kOk; }
int aclrtGetDevice(std::int32_t* device) {
  *device = 0;
  return kOk;
}
int aclrtGetLogicDevIdByUserDevId(std::int32_t user, std::int32_t* logic) {
  *logic = user;
  return kOk;
}
int aclrtGetCurrentContext(void** context) {
  *context = &runtime();
  return kOk;
}
int aclrtSetCurrentContext(void*) { return kOk; }
int aclrtGetPrimaryCtxState(std::int32_t, std::uint32_t* flags, std::int32_t* active) {
  if (flags) *flags = 0;
  *active = 1;
  return kOk;
}
const char* aclrtGetSocName() { return "Ascend910B1"; }

// Attributes of aclrtDevAttr: cores of the device, by kind.
int aclrtGetDeviceInfo(std::uint32_t, int attribute, std::int64_t* value) {
  *value = attribute == 201 ? kVectorCores : kCores;
  return kOk;
}
// Kinds: 0 cube cores, 1 vector cores, 2 bytes of the second-level cache.
int aclGetDeviceCapability(std::uint32_t, int kind, std::int64_t* value) {
  *value = kind == 0 ? kCores : kind == 1 ? kVectorCores : std::int64_t{192} << 20;
  return kOk;
}
// Kinds: 0 cube cores, 1 vector cores.
int aclrtGetDeviceResLimit(std::int32_t, int kind, std::uint32_t* value) {
  *value = kind == 1 ? kVectorCores : kCores;
  return kOk;
}
int aclrtGetStreamResLimit(void*, int kind, std::uint32_t* value) { return aclrtGetDeviceResLimit(0, kind, value); }
int aclrtGetResInCurrentThread(int kind, std::uint32_t* value) { return aclrtGetDeviceResLimit(0, kind, value); }
int aclrtDeviceCanAccessPeer(std::int32_t* can, std::int32_t, std::int32_t) {
  *can = 0;
  return kOk;
}

// Settings without effect here.
int aclrtSetDeviceSatMode(int) { return kOk; }
int aclrtSetSysParamOpt(int, std::int64_t) { return kOk; }
int aclrtGetSysParamOpt(int, std::int64_t* value) {
  *value = 0;
  return kOk;
}
int aclrtCtxSetSysParamOpt(int, std::int64_t) { return kOk; }
int aclrtSetStreamAttribute(void*, int, void*) { return kOk; }
int aclrtSetStreamFailureMode(void*, std::uint64_t) { return kOk; }
int aclrtSetOpWaitTimeout(std::uint32_t) { return kOk; }
int aclrtSetOpExecuteTimeOut(std::uint32_t) { return kOk; }
int aclSetCompileopt(int, const char*) { return kOk; }
// The options that are read are switches.
std::size_t aclGetCompileoptSize(int) { return sizeof "disable"; }
int aclGetCompileopt(int, char* value, std::size_t room) { return strcpy_s(value, room, "disable"); }

// Fields of fixed length: the version, then major, minor, release and patch.
int aclsysGetCANNVersion(int, void* version) {
  auto* text = static_cast<char*>(version);
  strcpy_s(text, 128, "9.0.0");
  strcpy_s(text + 128, 64, "9");
  for (const int at : {192, 256, 320}) strcpy_s(text + at, 64, "0");
  return kOk;
}
int aclsysGetVersionStr(char*, char* text) { return strcpy_s(text, 128, "9.0.0"); }

// Callbacks run where they are launched; the thread that serves them finds none.
int aclrtSubscribeReport(std::uint64_t, void*) { return kOk; }
int aclrtUnSubscribeReport(std::uint64_t, void*) { return kOk; }
int aclrtProcessReport(std::int32_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds < 0 || milliseconds > 10 ? 10 : milliseconds));
  return kOk;
}

// CANN's checked C functions.
int snprintf_s(char* to, std::size_t room, std::size_t count, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(to, std::min(room, count + 1), format, arguments);
  va_end(arguments);
  return static_cast<std::size_t>(length) < room ? length : -1;
}
int vsnprintf_s(char* to, std::size_t room, std::size_t count, const char* format, va_list arguments) {
  const int length = std::vsnprintf(to, std::min(room, count + 1), format, arguments);
  return static_cast<std::size_t>(length) < room ? length : -1;
}
int strcpy_s(char* to, std::size_t room, const char* from) {
  if (std::strlen(from) >= room) return -1;
  std::strcpy(to, from);
  return 0;
}
}
