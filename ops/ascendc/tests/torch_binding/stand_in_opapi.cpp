// Stands in for the operator library: the functions that CANN generates, with their real argument
// lists, that note what they are called with. `stand_in_log` gives one JSON object a line.
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>

struct aclTensor {
  std::string text;
};
struct aclOpExecutor {
  int number;
};

namespace {

std::ostringstream log_text;
std::string given;
aclOpExecutor executor_of_this_call{0};
int tensors_alive = 0, fail_with = 0;

std::string word(const aclTensor* tensor) { return tensor == nullptr ? "null" : tensor->text; }
std::string word(std::int64_t number) { return std::to_string(number); }
std::string word(bool flag) { return flag ? "true" : "false"; }

template <class... Words>
int plan(const char* type, std::uint64_t* bytes, aclOpExecutor** executor, Words... words) {
  std::string list;
  ((list += (list.empty() ? "" : ", ") + word(words)), ...);
  log_text << "{\"type\": \"" << type << "\", \"words\": [" << list << "], \"alive\": " << tensors_alive << "}\n";
  *bytes = std::strncmp(type, "Dsa", 3) == 0 ? 0 : 96;  // with and without a workspace
  ++executor_of_this_call.number;
  *executor = &executor_of_this_call;
  return fail_with;
}

int run(const char* type, void* workspace, std::uint64_t bytes, aclOpExecutor* executor, void* stream) {
  const bool right = executor == &executor_of_this_call && (bytes > 0) == (workspace != nullptr);
  log_text << "{\"run\": \"" << type << "\", \"right\": " << word(right) << ", \"bytes\": " << bytes
           << ", \"stream\": " << reinterpret_cast<std::uintptr_t>(stream) << ", \"alive\": " << tensors_alive << "}\n";
  return 0;
}

}  // namespace

#define OPERATOR(type, parameters, ...)                                                                        \
  extern "C" int aclnn##type##GetWorkspaceSize parameters { return plan(#type, bytes, executor, __VA_ARGS__); } \
  extern "C" int aclnn##type(void* workspace, std::uint64_t bytes, aclOpExecutor* executor, void* stream) {     \
    return run(#type, workspace, bytes, executor, stream);                                                     \
  }
#define END std::uint64_t *bytes, aclOpExecutor **executor

using T = const aclTensor*;
using M = aclTensor*;  // mutated
using I = std::int64_t;

OPERATOR(DsaAppend, (T part, T rows, M fresh, M backing, I width, END), part, rows, fresh, backing, width)
OPERATOR(DsaPlan,
         (T ids, T lanes, T kv_len, T q_len, T stable, T block_table, T slot_of, M counters, I page, T out_ids, T kind,
          T index, T length, T miss_id, T miss_from, T miss_count, END),
         ids, lanes, kv_len, q_len, stable, block_table, slot_of, counters, page, out_ids, kind, index, length, miss_id,
         miss_from, miss_count)
OPERATOR(DsaCommit,
         (T lanes, T kind, T index, T miss_id, T miss_from, T miss_count, M slot_of, M id_at, M hand, M visited,
          M counters, I policy, I hashing, T slot, T count, END),
         lanes, kind, index, miss_id, miss_from, miss_count, slot_of, id_at, hand, visited, counters, policy, hashing,
         slot, count)
OPERATOR(DsaServe, (T lanes, T kind, T index, T fresh, T pool, T backing, T out, END), lanes, kind, index, fresh, pool,
         backing, out)
OPERATOR(DsaInstall, (T lanes, T miss_from, T miss_count, T slot, T selection, M pool, END), lanes, miss_from,
         miss_count, slot, selection, pool)
OPERATOR(GatherSelectionPlan,
         (T ids, T lanes, T kv_len, T q_len, T stable, T block_table, T id_at, T row_of, M counters, I page,
          I first_row, bool across, T out_ids, T kind, T index, T length, T miss_id, T miss_from, T miss_count,
          T source, T work, T work_count, END),
         ids, lanes, kv_len, q_len, stable, block_table, id_at, row_of, counters, page, first_row, across, out_ids,
         kind, index, length, miss_id, miss_from, miss_count, source, work, work_count)
OPERATOR(GatherSelectionPlace,
         (T lanes, T ids, T kind, T miss_from, M id_at, M row_of, M counters, I first_row, T slot, T count, END), lanes,
         ids, kind, miss_from, id_at, row_of, counters, first_row, slot, count)
OPERATOR(GatherSelectionKvCache,
         (T kind, T index, T length, T source, T work, T work_count, T fresh, T backing, M buffer, M filled,
          I first_row, END),
         kind, index, length, source, work, work_count, fresh, backing, buffer, filled, first_row)

extern "C" {

aclTensor* aclCreateTensor(const std::int64_t* sizes, std::uint64_t dims, int type, const std::int64_t* strides,
                           std::int64_t offset, int format, const std::int64_t* storage, std::uint64_t storage_dims,
                           void* data) {
  bool plain = offset == 0 && format == 2 && storage_dims == dims;
  std::string list;
  std::int64_t stride = 1;
  for (std::uint64_t dim = dims; dim-- > 0; stride *= sizes[dim]) {
    plain = plain && strides[dim] == stride && storage[dim] == sizes[dim];
    list = std::to_string(sizes[dim]) + (list.empty() ? "" : ", ") + list;
  }
  ++tensors_alive;
  return new aclTensor{"{\"sizes\": [" + list + "], \"type\": " + std::to_string(type) + ", \"plain\": " + word(plain) +
                       ", \"data\": " + std::to_string(reinterpret_cast<std::uintptr_t>(data)) + "}"};
}

int aclDestroyTensor(const aclTensor* tensor) {
  --tensors_alive;
  delete tensor;
  return 0;
}

const char* aclGetRecentErrMsg() { return "the tiling said no"; }

// The log so far, which is then emptied.
const char* stand_in_log() {
  given = log_text.str();
  log_text.str("");
  return given.c_str();
}

void stand_in_fail_with(int status) { fail_with = status; }

int stand_in_tensors_alive() { return tensors_alive; }
}
