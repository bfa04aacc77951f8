// First half of planning: look every entry up in its row's tables, judge it, and move the valid ones to the
// front of their query.
#pragma once

#include "backing_rows.h"
#include "plan_args.h"

namespace tierkv {

// Takes batches of queries of one row, which search the tables together: bringing them is most of the
// work. For the same reason a query is not cut further: each piece would read the whole tables.
template <typename Slot, typename Tiling>
class PlanSearch {
 public:
  __aicore__ inline PlanSearch(const PlanArgs &args, const Tiling &tiling, PlanCounts &counts)
      : a_(args), t_(tiling), counts_(counts) {}

  __aicore__ inline void Process(AscendC::TPipe *pipe) {
    Init(pipe);
    const Range mine = MyShare(t_.queryEach, t_.queryMore);
    for (uint32_t unit = mine.first; unit < mine.last;) {
      const uint32_t row = unit / t_.queries, query = unit % t_.queries;
      const uint32_t count = Least(Least(mine.last - unit, t_.queries - query), t_.batch);
      Plan(BatchRow(a_.batch, row, t_.queries, t_.lanes), query, count);
      unit += count;
    }
    reader_.Close(pipe);
    counts_.future = judge_.future, counts_.unmapped = judge_.unmapped;
  }

 private:
  __aicore__ inline void Init(AscendC::TPipe *pipe) {
    const uint32_t batch = t_.batch * t_.stride;
    ids_ = Take<int32_t>(pipe, batch), far_ = Take<int32_t>(pipe, batch), slot_ = Take<int32_t>(pipe, batch);
    const Ints work0 = Take<int32_t>(pipe, batch), work1 = Take<int32_t>(pipe, batch);
    wide_ = Floats(work1);
    const Bits tiles = Take<uint8_t>(pipe, 2 * t_.tileBytes);
    for (Bits &mask : masks_) mask = Take<uint8_t>(pipe, t_.stride / 8);
    lengths_ = Take<int32_t>(pipe, t_.batch);
    AscendC::Duplicate(ids_, -1, batch);  // behind each query's entries it stays so
    reader_.Init(pipe, tiles, t_.tileBytes, work0, work1);
    judge_.Init(pipe, t_.stride, tiles, work0, work1);  // after the search, tiles are free
  }

  __aicore__ inline void Plan(const BatchRow &row, uint32_t query, uint32_t count) {
    const uint32_t end = query + count;
    const uint32_t live = row.first_live < query ? query : Least(row.first_live, end);
    Fence<AscendC::HardEvent::MTE3_S>();
    for (uint32_t q = query; q < live; ++q) {
      lengths_.SetValue(q - query, 0);
      Write(row.row, q, judge_.none, judge_.none, judge_.empty, judge_.none);
    }
    if (live < end) Search(row, live, end - live);
    for (uint32_t q = live; q < end; ++q) {
      const uint32_t at = (q - live) * t_.stride;
      Fence<AscendC::HardEvent::MTE3_V>();
      judge_.Judge(row, q, ids_[at], far_[at]);
      MarkHits(slot_[at]);
      const uint32_t length = judge_.Compact(ids_[at], t_.topK);
      Count(length);
      lengths_.SetValue(q - query, static_cast<int32_t>(length));
      Fence<AscendC::HardEvent::V_MTE3>();
      Write(row.row, q, judge_.ids, judge_.indices, judge_.bytes, judge_.spare);
    }
    Fence<AscendC::HardEvent::S_MTE3>();
    Store(a_.length + row.row * t_.queries + query, lengths_, count);
  }

  __aicore__ inline void Write(uint32_t row, uint32_t query, const Ints &ids, const Ints &indices,
                               const AscendC::LocalTensor<int8_t> &kinds, const Ints &found) {
    const uint64_t at = (static_cast<uint64_t>(row) * t_.queries + query) * t_.topK;
    Store(a_.out_ids + at, ids, t_.topK);
    Store(a_.index + at, indices, t_.topK);
    Store(a_.kind + at, kinds, t_.topK);
    Store(a_.found + at, found, t_.topK);
  }

  // Brings the ids of `count` queries, and finds their backing rows and slots: below 0 where there is none.
  __aicore__ inline void Search(const BatchRow &row, uint32_t query, uint32_t count) {
    const uint32_t n = count * t_.stride, pages = ((static_cast<uint32_t>(row.kv_len) - 1) >> t_.pageBits) + 1;
    // Queries judged before used the ids, and their results lie where tiles go; storing them was last.
    Fence<AscendC::HardEvent::MTE3_MTE2>();
    Bring((static_cast<uint64_t>(row.row) * t_.queries + query) * t_.topK, count);
    Fence<AscendC::HardEvent::MTE2_V>();
    FindBackingRows(reader_, far_, a_.block_table + static_cast<uint64_t>(row.row) * t_.pages,
                    Least(pages, t_.pages), t_.pageBits, ids_, slot_, n);
    FindSlots(row, n);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Bring(uint64_t at, uint32_t count) {
    constexpr uint32_t block = kBlockBytes / sizeof(int32_t);
    const uint32_t filled = RoundUp(t_.topK, block), pad = filled - t_.topK;
    AscendC::GlobalTensor<int32_t> ids;
    ids.SetGlobalBuffer(a_.ids);
    AscendC::DataCopyPad(ids_, ids[at],
                         AscendC::DataCopyExtParams{static_cast<uint16_t>(count),
                                                    static_cast<uint32_t>(t_.topK * sizeof(int32_t)), 0,
                                                    (t_.stride - filled) / block, 0},
                         AscendC::DataCopyPadExtParams<int32_t>{pad > 0, 0, static_cast<uint8_t>(pad), -1});
  }

  // What is not stable is looked for behind the table, and not found.
  __aicore__ inline void FindSlots(const BatchRow &row, uint32_t n) {
    const auto table = reinterpret_cast<__gm__ Slot *>(a_.slot_of) + static_cast<uint64_t>(row.lane) * t_.positions;
    const uint32_t size = row.stable < 0 ? 0 : Least(static_cast<uint32_t>(row.stable), t_.positions);
    const auto slot = slot_.template ReinterpretCast<Slot>();
    reader_.Find(slot, table, size, ids_, n);
    if constexpr (sizeof(Slot) == sizeof(int16_t)) {
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Cast(wide_, slot, AscendC::RoundMode::CAST_NONE, n);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Cast(slot_, wide_, AscendC::RoundMode::CAST_RINT, n);
    }
  }

  __aicore__ inline void MarkHits(const Ints &slot) {
    AscendC::Maxs(judge_.work[0], slot, 0, t_.stride);
    AscendC::PipeBarrier<PIPE_V>();
    Equal(masks_[0], judge_.work[0], slot, t_.stride);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(judge_.index, masks_[0], slot, judge_.index, t_.stride);
    Neither(masks_[1], masks_[0], t_.stride);
    AscendC::PipeBarrier<PIPE_V>();
    judge_.Otherwise(masks_[1], kKindHit);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Leaves the ids that are hits in judge_.spare.
  __aicore__ inline void Count(uint32_t length) {
    judge_.Are(masks_[0], kKindHit);
    judge_.Are(masks_[1], kKindMiss);
    judge_.Are(masks_[2], kKindWindow);
    AscendC::PipeBarrier<PIPE_V>();
    Choose(judge_.spare, masks_[0], judge_.ids, judge_.none, t_.stride);
    const auto hits = static_cast<int32_t>(Compress(judge_.work[0], judge_.ids, masks_[0], length));
    const auto misses = static_cast<int32_t>(Compress(judge_.work[1], judge_.ids, masks_[1], length));
    counts_.hits += hits;
    counts_.misses += misses;
    counts_.window += static_cast<int32_t>(length) - hits - misses;
    counts_.fetched += static_cast<int32_t>(Compress(judge_.index, judge_.ids, masks_[2], length));
  }

  const PlanArgs &a_;
  const Tiling &t_;
  PlanCounts &counts_;
  EntryJudge judge_;
  TableReader reader_;
  Ints ids_, far_, slot_, lengths_;
  AscendC::LocalTensor<float> wide_;
  Bits masks_[3];
};

}  // namespace tierkv
