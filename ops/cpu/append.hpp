// Keep this step's rows and write the live ones to their place in backing.
#pragma once

#include <cstdint>
#include <cstring>

#include "views.hpp"

namespace tierkv {

struct AppendPart {
  Rows from, to;  // `from` [rows, queries]; `to` [backing rows]
  std::size_t bytes = 0;
};

struct AppendArgs {
  int rows = 0, queries = 0;
  int kept = 0, written = 0;
  AppendPart keep[kMaxParts], write[kMaxParts];
  const std::int32_t* place = nullptr;  // [rows, queries], -1 is dropped
  std::int64_t backing_rows = 0;
};

// False, with nothing written, if a row is outside the backing.
inline bool append(const AppendArgs& a) {
  for (int i = 0; i < a.rows * a.queries; ++i) {
    if (a.written > 0 && a.place[i] >= a.backing_rows) return false;
  }
  for (int i = 0; i < a.rows * a.queries; ++i) {
    const int row = i / a.queries, query = i % a.queries;
    for (int p = 0; p < a.kept; ++p) {
      const AppendPart& part = a.keep[p];
      std::memcpy(part.to.at(row, query), part.from.at(row, query), part.bytes);
    }
    for (int p = 0; a.place[i] >= 0 && p < a.written; ++p) {
      const AppendPart& part = a.write[p];
      std::memcpy(part.to.at(0, a.place[i]), part.from.at(row, query), part.bytes);
    }
  }
  return true;
}

}  // namespace tierkv
