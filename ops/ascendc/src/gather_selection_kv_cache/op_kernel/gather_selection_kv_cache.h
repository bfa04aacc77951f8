// Bring a selection buffer from the last selection to this one, in place.
#pragma once

#include "row_copy.h"
#include "row_zero.h"
#include "share.h"
#include "tierkv_constants.h"

namespace tierkv {

struct GatherArgs {
  __gm__ int8_t *kind;
  __gm__ int32_t *index, *length, *source, *work, *workCount;
  __gm__ uint8_t *fresh, *backing, *buffer;
  __gm__ int32_t *filled;
};

// In this order, so that nothing is written before it is read:
//   1. records of lanes that lay in another row of the buffer, in slices (see MoveAcross);
//   2. moves within a row, and copies. The plan moves records from behind a query's new length to
//      before it, and copies to before it: whatever the order, no source is written;
//   3. after all cores: repeats, which copy what 2 wrote, and zeros from the new length on, where
//      2 read.
// A row's work list is shared out like cards, since each of its kinds stands together in the list.
template <typename Tiling>
class Gather {
 public:
  __aicore__ inline Gather(const GatherArgs &args, const Tiling &tiling) : a_(args), t_(tiling) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    Init(pipe);
    LoadLengths();
    if (AnyElsewhere()) MoveAcross();
    WorkOnMine<false>();
    copier_.Flush();
    AscendC::SyncAll<true>();
    WorkOnMine<true>();
    eraser_.Flush();
    copier_.Close();
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  __aicore__ inline void Init(AscendC::TPipe *pipe) {
    entries_ = t_.queries * t_.topK;
    cores_ = AscendC::GetBlockNum();
    // Every row of the batch is cut into a share for each core; as many as there are rows are mine.
    mine_.first = AscendC::GetBlockIdx() * t_.rows;
    mine_.last = mine_.first + t_.rows;
    copier_.Init(pipe, t_.rowBytes, t_.batchRows);
    eraser_.Init(pipe, t_.eraserBytes);
    kinds_ = TakeBlocks<int8_t>(pipe, entries_);
    index_ = TakeBlocks<int32_t>(pipe, entries_);
    work_ = TakeBlocks<int32_t>(pipe, entries_);
    lengthPitch_ = RoundUp(t_.queries, kBlockBytes / sizeof(int32_t));
    lengths_ = Take<int32_t>(pipe, t_.mostRows * lengthPitch_);
    filled_ = Take<int32_t>(pipe, t_.mostRows * lengthPitch_);
  }

  // How long my rows' queries are and were. `filled` is read now because others write it at the end;
  // what is read here is used after SyncAll only.
  __aicore__ inline void LoadLengths() {
    const uint32_t first = mine_.first / cores_, rows = (mine_.last - 1) / cores_ - first + 1;
    const uint32_t bytes = t_.queries * sizeof(int32_t);
    const uint32_t gap = (t_.bufferQueries - t_.queries) * sizeof(int32_t);
    const auto count = static_cast<uint16_t>(rows);
    const AscendC::DataCopyPadExtParams<int32_t> noPad{false, 0, 0, 0};
    AscendC::GlobalTensor<int32_t> from;
    from.SetGlobalBuffer(a_.length + uint64_t{first} * t_.queries);
    AscendC::DataCopyPad(lengths_, from, AscendC::DataCopyExtParams{count, bytes, 0, 0, 0}, noPad);
    from.SetGlobalBuffer(FilledOf(first));
    AscendC::DataCopyPad(filled_, from, AscendC::DataCopyExtParams{count, bytes, gap, 0, 0}, noPad);
  }

  __aicore__ inline bool AnyElsewhere() const {
    bool any = false;
    for (uint32_t row = 0; row < t_.rows; ++row) any |= IsElsewhere(row);
    return any;
  }

  __aicore__ inline bool IsElsewhere(uint32_t row) const {
    return static_cast<uint32_t>(ReadGm(a_.source, row)) != t_.firstRow + row;
  }

  // A record never moves to a later place of its query, in whatever row: it stays or closes a hole.
  // So the places of all rows go slice by slice, ascending: once a slice has been read by all cores,
  // nobody needs what lay in its places. A core holds its part of a slice in UB.
  __aicore__ inline void MoveAcross() {
    const uint32_t begin = static_cast<uint32_t>(AscendC::GetBlockIdx()) * t_.sliceEach;
    for (uint32_t first = 0; first < entries_; first += t_.slice) {
      const uint32_t places = Least(t_.slice, entries_ - first);
      const uint32_t end = Least(begin + t_.sliceEach, t_.rows * places);
      for (uint32_t at = begin, count = 0; at < end; at += count) {
        const uint32_t row = at / places, place = at % places;
        count = Least(places - place, end - at);
        if (IsElsewhere(row)) TakeAcross(row, first + place, count);
      }
      copier_.FinishReading();
      AscendC::SyncAll<true>();
      copier_.Flush();
    }
  }

  __aicore__ inline void TakeAcross(uint32_t row, uint32_t first, uint32_t count) {
    OpenRow(row);
    Fence<AscendC::HardEvent::S_MTE2>();
    Load(kinds_, a_.kind + row * uint64_t{entries_} + first, count);
    Load(index_, a_.index + row * uint64_t{entries_} + first, count);
    Fence<AscendC::HardEvent::MTE2_S>();
    for (uint32_t i = 0; i < count; ++i) {
      if (kinds_.GetValue(i) == kKindHit) copier_.Put(Before(first + i, index_.GetValue(i)), To(first + i));
    }
  }

  // This core's shares, row by row: moves and copies, or what comes after them.
  template <bool after>
  __aicore__ inline void WorkOnMine() {
    for (uint32_t row = mine_.first / cores_; row * cores_ < mine_.last; ++row) {
      const uint32_t begin = row * cores_;
      const Range shares{mine_.first > begin ? mine_.first - begin : 0, Least(mine_.last - begin, cores_)};
      OpenRow(row);
      LoadRow(row);
      Deal<after>(row, shares);
      if (after) Erase(row, shares);
    }
  }

  // Repeats stand last in the list: they end the first pass, and the second goes on from there if
  // the row's plan is still the one in UB.
  template <bool after>
  __aicore__ inline void Deal(uint32_t row, const Range &shares) {
    for (uint32_t round = after ? repeats_ : 0; round < workSize_; round += cores_) {
      const uint32_t last = Least(round + shares.last, workSize_);
      for (uint32_t i = round + shares.first; i < last; ++i) {
        const uint32_t place = work_.GetValue(i);
        const int32_t kind = kinds_.GetValue(place);
        if ((kind == kKindRepeat) == after) {
          WorkOn(row, kind, place);
        } else if (!after) {
          repeats_ = round;
          return;
        }
      }
    }
    if (!after) repeats_ = workSize_;
  }

  __aicore__ inline void OpenRow(uint32_t row) {
    const uint64_t query = t_.topK * uint64_t{t_.rowBytes}, skipped = t_.bufferQueries - t_.queries;
    const uint64_t own = t_.firstRow + row, source = ReadGm(a_.source, row);
    to_ = a_.buffer + (own * t_.bufferQueries + skipped) * query;
    before_ = a_.buffer + (source * t_.bufferQueries + skipped) * query;
    elsewhere_ = own != source;
  }

  // Bring in the row's plan, unless it is there: most often, a core works on one row.
  __aicore__ inline void LoadRow(uint32_t row) {
    if (row == loaded_) return;
    loaded_ = row;
    repeats_ = 0;
    workSize_ = ReadGm(a_.workCount, row);
    if (workSize_ == 0) return;
    Fence<AscendC::HardEvent::S_MTE2>();
    const uint64_t first = row * uint64_t{entries_};
    Load(work_, a_.work + first, workSize_);
    Load(kinds_, a_.kind + first, entries_);
    Load(index_, a_.index + first, entries_);
    Fence<AscendC::HardEvent::MTE2_S>();
  }

  __aicore__ inline void WorkOn(uint32_t row, int32_t kind, uint32_t place) {
    if (kind == kKindHit && elsewhere_) return;  // has been moved
    copier_.Put(From(row, kind, place, index_.GetValue(place)), To(place));
  }

  __aicore__ inline __gm__ uint8_t *From(uint32_t row, int32_t kind, uint32_t place, uint32_t index) const {
    if (kind == kKindHit) return Before(place, index);
    if (kind == kKindRepeat) return To(index);
    if (kind == kKindFresh) return a_.fresh + (row * t_.queries + index) * uint64_t{t_.rowBytes};
    return a_.backing + index * uint64_t{t_.rowBytes};
  }

  __aicore__ inline __gm__ uint8_t *To(uint32_t place) const { return to_ + place * uint64_t{t_.rowBytes}; }

  // The place `index` of the same query, in the row where the lane's records lay.
  __aicore__ inline __gm__ uint8_t *Before(uint32_t place, uint32_t index) const {
    return before_ + (place - place % t_.topK + index) * uint64_t{t_.rowBytes};
  }

  __aicore__ inline __gm__ int32_t *FilledOf(uint32_t row) const {
    return a_.filled + (uint64_t{t_.firstRow} + row) * t_.bufferQueries + t_.bufferQueries - t_.queries;
  }

  // My part of what each query shrank by. Who has a row's first share notes the new lengths.
  __aicore__ inline void Erase(uint32_t row, const Range &shares) {
    const uint32_t at = (row - mine_.first / cores_) * lengthPitch_;
    const auto length = lengths_[at], filled = filled_[at];
    for (uint32_t query = 0; query < t_.queries; ++query) {
      const uint32_t from = length.GetValue(query), end = filled.GetValue(query);
      if (end <= from) continue;
      const uint32_t first = from + (end - from) * shares.first / cores_;
      const uint32_t last = from + (end - from) * shares.last / cores_;
      if (last > first) eraser_.Put(To(query * t_.topK + first), (last - first) * uint64_t{t_.rowBytes});
    }
    if (shares.first == 0) Store(FilledOf(row), length, t_.queries);
  }

  const GatherArgs &a_;
  const Tiling &t_;
  RowCopier copier_;
  RowEraser eraser_;
  AscendC::LocalTensor<int8_t> kinds_;
  Ints index_, work_, lengths_, filled_;
  uint32_t entries_ = 0, cores_ = 0, lengthPitch_ = 0;
  Range mine_ = {0, 0};
  __gm__ uint8_t *to_ = nullptr, *before_ = nullptr;  // the row's place 0, now and in the last selection
  bool elsewhere_ = false;
  uint32_t loaded_ = kNone, workSize_ = 0;  // the row whose plan is in UB, and the length of its list
  uint32_t repeats_ = 0;                    // where in the list to look for its repeats
};

}  // namespace tierkv
