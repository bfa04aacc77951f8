// Memory of the device, pinned host memory and copies. Fresh and freed memory is poisoned.
#include <cstdlib>
#include <cstring>

#include "runtime.hpp"

namespace hostnpu {
namespace {

constexpr std::size_t kAlign = 512, kPage = 4096;  // torch_npu counts on host memory in whole pages
constexpr int kPoison = 0xCB;  // a bad index as an integer, far out as a floating-point number
constexpr std::size_t kTotal = std::size_t{64} << 30;

struct Block {
  std::size_t bytes;
  bool device, mapped, owned;  // host memory is mapped if the device may address it
};

struct Blocks {
  std::map<std::uintptr_t, Block> all;
  std::size_t device = 0;
};

Blocks& blocks() {
  static auto* const instance = new Blocks;
  return *instance;
}

const Block* find_block(const void* begin, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  auto found = blocks().all.upper_bound(at);
  if (found == blocks().all.begin()) return nullptr;
  --found;
  return at + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

int allocate(void** out, std::size_t bytes, bool device) {
  Guard guard(runtime().lock);
  const std::size_t align = device ? kAlign : kPage, rounded = (bytes + align - 1) / align * align;
  *out = rounded && rounded <= kTotal ? std::aligned_alloc(align, rounded) : nullptr;
  if (!*out) return fail(kOutOfMemory, "allocate: no memory for " + std::to_string(bytes) + " bytes");
  std::memset(*out, kPoison, rounded);
  blocks().all[reinterpret_cast<std::uintptr_t>(*out)] = {bytes, device, device, true};
  if (device) blocks().device += bytes;
  return kOk;
}

int release(const char* caller, void* pointer) {
  Guard guard(runtime().lock);
  const auto found = blocks().all.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == blocks().all.end()) return fail(kInvalid, std::string(caller) + ": not an allocation");
  drive_all();  // freeing waits for the device
  std::memset(pointer, kPoison, found->second.bytes);
  if (found->second.device) blocks().device -= found->second.bytes;
  if (found->second.owned) std::free(pointer);
  blocks().all.erase(found);
  return settle();
}

// Kinds: 0 host to host, 1 host to device, 2 device to host, 3 device to device, 4 default.
int check_copy(const void* to, std::size_t room, const void* from, std::size_t bytes, int kind) {
  if (bytes > room) return fail(kInvalid, "copy: " + std::to_string(bytes) + " bytes into " + std::to_string(room));
  if ((kind == 1 || kind == 3) && !on_device(to, bytes)) return fail(kInvalid, "copy: target is not on the device");
  if ((kind == 2 || kind == 3) && !on_device(from, bytes)) return fail(kInvalid, "copy: source is not on the device");
  return kOk;
}

}  // namespace

bool on_device(const void* begin, std::size_t bytes) {
  Guard guard(runtime().lock);
  const Block* block = find_block(begin, bytes);
  return bytes == 0 || (block && block->mapped);
}

}  // namespace hostnpu

using namespace hostnpu;

extern "C" {

int aclrtMalloc(void** out, std::size_t bytes, int) { return allocate(out, bytes, true); }
int aclrtMallocAlign32(void** out, std::size_t bytes, int) { return allocate(out, bytes, true); }
int aclrtFree(void* pointer) { return release("aclrtFree", pointer); }
int aclrtMallocHost(void** out, std::size_t bytes) { return allocate(out, bytes, false); }
int aclrtMallocHostWithCfg(void** out, std::uint64_t bytes, void*) { return allocate(out, bytes, false); }
int aclrtFreeHost(void* pointer) { return release("aclrtFreeHost", pointer); }

// Host memory gets an address on the device: its own.
int aclrtHostRegister(void* pointer, std::uint64_t bytes, int, void** device) {
  Guard guard(runtime().lock);
  auto& block = blocks().all.try_emplace(reinterpret_cast<std::uintptr_t>(pointer), Block{}).first->second;
  if (block.bytes == 0) block.bytes = bytes;
  block.mapped = true;
  *device = pointer;
  return kOk;
}
int aclrtHostRegisterV2(void* pointer, std::uint64_t bytes, std::uint32_t) {
  void* device = nullptr;
  return aclrtHostRegister(pointer, bytes, 0, &device);
}
int aclrtHostGetDevicePointer(void* pointer, void** device, std::uint32_t) {
  *device = pointer;
  return kOk;
}
int aclrtHostUnregister(void* pointer) {
  Guard guard(runtime().lock);
  const auto found = blocks().all.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == blocks().all.end()) return fail(kInvalid, "aclrtHostUnregister: not registered");
  drive_all();
  found->second.mapped = false;
  if (!found->second.owned) blocks().all.erase(found);
  return settle();
}

// Where `pointer` lies: 0 host, 1 device, 2 unknown.
int aclrtPointerGetAttributes(const void* pointer, void* attributes) {
  struct Attributes {
    std::uint32_t device;
    int where;
    std::uint32_t page, reserved[4];
  };
  Guard guard(runtime().lock);
  const Block* block = find_block(pointer, 1);
  *static_cast<Attributes*>(attributes) = {0, !block ? 2 : block->device ? 1 : 0, 4096, {}};
  return kOk;
}

int aclrtGetMemInfo(int, std::size_t* free, std::size_t* total) {
  Guard guard(runtime().lock);
  *total = kTotal;
  *free = kTotal - blocks().device;
  return kOk;
}

// As on the device, these do not wait for what the streams still hold.
int aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, int kind) {
  Guard guard(runtime().lock);
  if (const int code = check_copy(to, room, from, bytes, kind)) return code;
  if (!may_synchronize("aclrtMemcpy")) return kInvalid;
  std::memcpy(to, from, bytes);
  return kOk;
}

int aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, int kind, void* stream) {
  if (const int code = check_copy(to, room, from, bytes, kind)) return code;
  return launch(stream, [=] { std::memmove(to, from, bytes); });
}
int aclrtMemcpyAsyncWithCondition(void* to, std::size_t room, const void* from, std::size_t bytes, int kind,
                                  void* stream) {
  return aclrtMemcpyAsync(to, room, from, bytes, kind, stream);
}

int aclrtMemset(void* to, std::size_t room, std::int32_t value, std::size_t bytes) {
  Guard guard(runtime().lock);
  if (bytes > room || !on_device(to, bytes)) return fail(kInvalid, "aclrtMemset: target is not on the device");
  if (!may_synchronize("aclrtMemset")) return kInvalid;
  std::memset(to, value, bytes);
  return kOk;
}
int aclrtMemsetAsync(void* to, std::size_t room, std::int32_t value, std::size_t bytes, void* stream) {
  if (bytes > room || !on_device(to, bytes)) return fail(kInvalid, "aclrtMemsetAsync: target is not on the device");
  return launch(stream, [=] { std::memset(to, value, bytes); });
}

int hostnpu_on_device(const void* begin, std::size_t bytes) { return on_device(begin, bytes) ? 1 : 0; }
}
