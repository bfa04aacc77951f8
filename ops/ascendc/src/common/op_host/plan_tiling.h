// What the tilings of planning share.
#pragma once

#include "tiling.h"

namespace tierkv {

constexpr int64_t kMostChunk = 2048, kChunkUnit = 256;
constexpr int64_t kMostParts = 16, kPartEntries = 512;  // below that a core has little to do
constexpr int64_t kTableBits = 13, kTableSize = 1 << kTableBits;  // of FirstPlaces
constexpr int64_t kHashBits = 32;

// Whether the inputs from `first` on are a batch of `rows` rows: lanes, kv_len, q_len, stable, block_table.
inline ge::graphStatus CheckBatch(const gert::TilingContext *context, size_t first, int64_t rows, int64_t page) {
  const char *const names[] = {"lanes", "kv_len", "q_len", "stable"};
  for (size_t i = 0; i < 4; ++i) {
    TIERKV_REQUIRE(HasShape(context, first + i, {rows}), context, names[i], "must be [%ld]", rows);
  }
  TIERKV_REQUIRE(page >= kMinPage && page <= kMaxPage && (page & (page - 1)) == 0, context, "page",
                 "must be a power of two from %d to %d, got %ld", kMinPage, kMaxPage, page);
  const int64_t pages = Dim(context, first + 4, 1);
  TIERKV_REQUIRE(HasShape(context, first + 4, {rows, pages}) && pages >= 1, context, "block_table",
                 "must be [%ld, pages], at least one page", rows);
  TIERKV_REQUIRE(pages <= kMaxRows / page, context, "block_table", "has too many pages, %ld", pages);
  return ge::GRAPH_SUCCESS;
}

// Units that PlanUnique makes of a row's hits; its misses make one more.
inline int64_t UniqueParts(int64_t rows, int64_t entries, int64_t cores) {
  return std::clamp<int64_t>(cores / rows - 1, 1, std::min(kMostParts, DivideUp(entries, kPartEntries)));
}

// The fields that PlanUnique reads.
template <typename Data>
void SplitUniques(Data &data, int64_t rows, int64_t entries, int64_t parts, int64_t cores) {
  const int64_t units = rows * (1 + parts), chunk = std::min(kMostChunk, RoundUp(entries, kChunkUnit));
  int64_t hashes = kTableSize, bits = kTableBits;
  for (; hashes * 2 <= kTableSize * parts; hashes *= 2) ++bits;  // so that each part's fit the table
  data.set_entries(entries);
  data.set_unitEach(units / cores);
  data.set_unitMore(units % cores);
  data.set_parts(parts);
  data.set_hashes(hashes);
  data.set_hitShift(kHashBits - bits);
  data.set_missShift(kHashBits - kTableBits);
  data.set_table(kTableSize);
  data.set_chunk(chunk);
  data.set_chunks(DivideUp(entries, chunk));
}

}  // namespace tierkv
