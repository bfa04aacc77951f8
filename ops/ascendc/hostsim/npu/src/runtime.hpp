// A device whose memory is the host's: what stands behind the stand-in for CANN's runtime.
//
// Streams are queues of items, events are marks in them. An eager stream runs an item as soon as it
// is queued; a lazy one when a wait or a synchronisation demands it, so that a missing wait shows.
// While a stream is captured its items go to the log of the graph instead.
//
// One lock covers all of it, also while a task runs: a task must not need Python's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace hostnpu {

// Codes of CANN that torch_npu knows.
enum Code : int {
  kOk = 0,
  kInvalid = 107000,
  kUnsupported = 207000,
  kOutOfMemory = 207001,
  kTaskFailed = 507015,
};

// Which streams are lazy. The first stream that is created is the main one.
enum class Order : int { kEager = 0, kLateSide = 1, kLateMain = 2, kLate = 3 };

using Task = std::function<void()>;

struct Capture;
struct Stream;

// One recording of an event. In a capture: by which branch, after how many entries of each.
struct Record {
  std::shared_ptr<Stream> stream;
  bool done = false;
  double milliseconds = 0;
  int queries = 0;
  int capture = 0;  // its number, 0 is none
  std::vector<std::size_t> clock;
};

struct Event {
  std::shared_ptr<Record> last;
};

// A task (`run` set), a mark (`mark` set) or a wait (`awaited` set).
struct Item {
  Task run;
  std::shared_ptr<Record> mark, awaited;
};

struct Stream : std::enable_shared_from_this<Stream> {
  int id = 0;
  bool main = false;
  std::deque<Item> items;
  Capture* capture = nullptr;
  std::size_t branch = 0;  // in the capture
};

struct Runtime {
  std::recursive_mutex lock;
  Order order = Order::kEager;
  std::map<Stream*, std::shared_ptr<Stream>> streams;  // those of the caller
  std::vector<std::shared_ptr<Stream>> branches;       // those of running graphs
  std::shared_ptr<Stream> unnamed;                     // behind a null handle
  int next_id = 0;
  int captures = 0;   // active ones
  int captured = 0;   // ever begun
  std::string fault;  // of a task, not yet reported
  std::string message;
};

Runtime& runtime();
using Guard = std::lock_guard<std::recursive_mutex>;

// Keeps `text` for aclGetRecentErrMsg and gives `code`.
int fail(int code, const std::string& text);

// Reports the fault of a task, once.
int settle();

Stream* find(void* handle);  // null is the unnamed stream; null if unknown
std::shared_ptr<Stream> make_stream(bool main);

bool lazy(const Stream& stream);

// Queues an item; runs it unless the stream is lazy.
void push(Stream& stream, Item item);

// Runs what `stream` holds, all of it or up to a mark.
void drive(Stream& stream, const Record* until = nullptr);
void drive_all();

// Runs `task` in the order of the stream `handle`, also at each replay if the stream is captured.
int launch(void* handle, Task task);

// False, with a message, while a capture is active: the host must not wait for the device then.
bool may_synchronize(const char* caller, const Stream* stream = nullptr);

// graph.cpp
int thread_capture_mode();  // 0 global, 1 thread local, 2 relaxed
void record_in_capture(Stream& stream, Event& event);
int wait_in_capture(Stream& stream, Event& event);
void log_task(Stream& stream, Task task);

// memory.cpp: whether [begin, begin + bytes) lies in one live allocation of the device, or in host
// memory that the device may address.
bool on_device(const void* begin, std::size_t bytes);

}  // namespace hostnpu
