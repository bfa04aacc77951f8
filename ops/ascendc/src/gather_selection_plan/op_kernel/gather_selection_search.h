// First step of planning a gather: judge each query's entries, and give them places in its buffer.
#pragma once

#include "backing_rows.h"
#include "gather_selection_args.h"
#include "gather_selection_arrange.h"

namespace tierkv {

// A core takes whole queries: which of two equal ids is found where is decided one after the other.
template <typename Tiling>
class GatherSearch {
 public:
  __aicore__ inline GatherSearch(const GatherPlanArgs &args, const Tiling &tiling, PlanCounts &counts)
      : g_(args), a_(args.plan), t_(tiling), counts_(counts) {}

  // Gives how many records move.
  __aicore__ inline int32_t Process(AscendC::TPipe *pipe) {
    Init(pipe);
    const Range mine = MyShare(t_.queryEach, t_.queryMore);
    for (uint32_t unit = mine.first; unit < mine.last; ++unit) {
      const uint32_t at = unit / t_.queries, query = unit % t_.queries;
      const BatchRow row(a_.batch, at, t_.queries, t_.lanes);
      const GatherSource source(g_, t_, at);
      Fence<AscendC::HardEvent::MTE3_S>();
      numbers_.SetValue(0, 0);
      numbers_.SetValue(kNumber, source.row);
      if (query < row.first_live) {
        Write(unit, judge_.none, judge_.none, judge_.empty, judge_.none);
      } else {
        Plan(row, query, unit, source);
      }
      Fence<AscendC::HardEvent::S_MTE3>();
      Store(a_.length + unit, numbers_, 1);
      if (query == 0) Store(g_.source + at, numbers_[kNumber], 1);
    }
    reader_.Close(pipe);
    counts_.future = judge_.future, counts_.unmapped = judge_.unmapped;
    return moved_;
  }

 private:
  static constexpr uint32_t kNumber = kBlockBytes / sizeof(int32_t);  // from number to number

  __aicore__ inline void Init(AscendC::TPipe *pipe) {
    const uint32_t n = t_.stride;
    ids_ = Take<int32_t>(pipe, n);
    const Ints work0 = Take<int32_t>(pipe, n), work1 = Take<int32_t>(pipe, n);
    const Bits tiles = Take<uint8_t>(pipe, 2 * t_.tileBytes);
    numbers_ = Take<int32_t>(pipe, 2 * kNumber);
    reader_.Init(pipe, tiles, t_.tileBytes, work0, work1);
    judge_.Init(pipe, n, tiles, work0, work1);  // after the search, tiles are free
    const Ints works[] = {work0, work1, judge_.spare, judge_.index, judge_.kind.template ReinterpretCast<int32_t>()};
    match_.Init(pipe, n, judge_.none, works);
    arrange_.Init(pipe, n, judge_, match_, ids_);
  }

  __aicore__ inline void Plan(const BatchRow &row, uint32_t query, uint32_t unit, const GatherSource &source) {
    Bring(row, query, unit, source);
    judge_.Judge(row, query, ids_, match_.place_of);
    const uint32_t length = judge_.Compact(ids_, t_.topK);
    if (length == 0) return Write(unit, judge_.none, judge_.none, judge_.empty, judge_.none);
    arrange_.Front(length);
    judge_.Are(match_.open, kKindMiss);
    match_.Find(judge_.ids);
    const auto n = arrange_.Arrange(length);
    counts_.hits += n.hits, counts_.misses += n.misses, counts_.window += n.window, counts_.fetched += n.fetched;
    moved_ += source.elsewhere ? n.hits : n.behind;
    numbers_.SetValue(0, static_cast<int32_t>(length));
    Fence<AscendC::HardEvent::V_MTE3>();
    Write(unit, arrange_.ids, arrange_.indices, judge_.bytes, arrange_.hits);
  }

  // Brings a query's ids and what its places hold, and finds backing rows, which lie in `place_of`.
  __aicore__ inline void Bring(const BatchRow &row, uint32_t query, uint32_t unit, const GatherSource &source) {
    const uint32_t pages = ((static_cast<uint32_t>(row.kv_len) - 1) >> t_.pageBits) + 1;
    // The query before used this memory, and its results lie where tiles go.
    Fence<AscendC::HardEvent::MTE3_V>();
    AscendC::Duplicate(ids_, -1, t_.stride);
    AscendC::Duplicate(match_.held, -1, t_.stride);
    Fence<AscendC::HardEvent::V_MTE2>();
    Load(ids_, a_.ids + uint64_t{unit} * t_.topK, t_.topK, -1);
    if (source.near) {
      const uint64_t lane = static_cast<uint64_t>(row.lane) + 1;  // a batch has the last queries of a lane
      Load(match_.held, g_.id_at + lane * t_.places - (t_.queries - query) * t_.topK, t_.topK, -1);
    }
    Fence<AscendC::HardEvent::MTE2_V>();
    FindBackingRows(reader_, match_.place_of, a_.block_table + uint64_t{row.row} * t_.pages, Least(pages, t_.pages),
                    t_.pageBits, ids_, match_.entry_at, t_.stride);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Write(uint32_t unit, const Ints &ids, const Ints &indices,
                               const AscendC::LocalTensor<int8_t> &kinds, const Ints &found) {
    const uint64_t at = uint64_t{unit} * t_.topK;
    Store(a_.out_ids + at, ids, t_.topK);
    Store(a_.index + at, indices, t_.topK);
    Store(a_.kind + at, kinds, t_.topK);
    Store(a_.found + at, found, t_.topK);
  }

  const GatherPlanArgs &g_;
  const PlanArgs &a_;
  const Tiling &t_;
  PlanCounts &counts_;
  int32_t moved_ = 0;
  EntryJudge judge_;
  TableReader reader_;
  GatherMatch match_;
  GatherArrange arrange_;
  Ints ids_, numbers_;
};

}  // namespace tierkv
