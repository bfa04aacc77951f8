// The bound: after each step keep the ids whose next selection is nearest. The readable form is
// tierkv/replay/belady.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tierkv {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kAgain = -1;  // an id that stands in its step before

// Note in `next` [..., entries] the step that selects each of `ids` [entries] again. `last`
// [positions] is the place where an id was met last, -1 at first.
inline void link_step(std::int64_t step, std::int64_t row, const std::int32_t* ids, std::int64_t entries,
                      std::int64_t step_entries, std::int64_t* last, std::int32_t* next) {
  for (std::int64_t i = 0; i < entries; ++i) {
    const std::int64_t place = step * step_entries + row * entries + i;
    next[place] = kNever;
    if (ids[i] < 0) continue;
    std::int64_t& met = last[ids[i]];
    if (met >= step * step_entries) {
      next[place] = kAgain;
      continue;
    }
    if (met >= 0) next[met] = static_cast<std::int32_t>(step);
    met = place;
  }
}

struct BeladyCounts {
  std::int64_t hits = 0, misses = 0, unique_hits = 0, unique_misses = 0, installs = 0, bypassed = 0;
};

// One lane.
class Belady {
 public:
  Belady(std::int64_t positions, std::int64_t slots) : next_of_(positions, -1), since_(positions, -1), slots_(slots) {}

  // Drop the ids at and behind a position.
  void forget(std::int64_t position) {
    for (std::size_t id = std::max<std::int64_t>(position, 0); id < next_of_.size(); ++id) {
      resident_ -= next_of_[id] >= 0;
      next_of_[id] = -1;
    }
  }

  // Select `ids`, -1 is none, of which `next` says when they are selected again.
  BeladyCounts step(std::int32_t number, const std::int32_t* ids, const std::int32_t* next, std::int64_t entries) {
    BeladyCounts n;
    for (std::int64_t i = 0; i < entries; ++i) {
      if (ids[i] >= 0) ++(next_of_[ids[i]] >= 0 ? n.hits : n.misses);
    }
    for (std::int64_t i = 0; i < entries; ++i) {
      if (ids[i] < 0 || next[i] == kAgain) continue;
      std::int32_t& known = next_of_[ids[i]];
      ++(known >= 0 ? n.unique_hits : n.unique_misses);
      if (known < 0) since_[ids[i]] = number, ++resident_;
      known = next[i];
      farthest_.emplace_back(known, ids[i]);
      std::push_heap(farthest_.begin(), farthest_.end());
    }
    n.bypassed = leave(number);
    n.installs = n.unique_misses - n.bypassed;
    if (static_cast<std::int64_t>(farthest_.size()) > 4 * (slots_ + entries)) drop_stale();
    return n;
  }

 private:
  using Selection = std::pair<std::int32_t, std::int32_t>;  // step and id

  // Give how many of those that leave came in this step.
  std::int64_t leave(std::int32_t number) {
    std::int64_t bypassed = 0;
    while (resident_ > slots_) {
      std::pop_heap(farthest_.begin(), farthest_.end());
      const Selection selection = farthest_.back();
      farthest_.pop_back();
      if (!valid(selection)) continue;
      next_of_[selection.second] = -1;
      bypassed += since_[selection.second] == number;
      --resident_;
    }
    return bypassed;
  }

  // Whether the id has not been selected since.
  bool valid(const Selection& selection) const { return next_of_[selection.second] == selection.first; }

  void drop_stale() {
    const auto stale = [this](const Selection& selection) { return !valid(selection); };
    farthest_.erase(std::remove_if(farthest_.begin(), farthest_.end(), stale), farthest_.end());
    std::make_heap(farthest_.begin(), farthest_.end());
  }

  std::vector<std::int32_t> next_of_;  // of residents; -1 is not resident
  std::vector<std::int32_t> since_;
  std::vector<Selection> farthest_;  // a heap
  std::int64_t slots_, resident_ = 0;
};

}  // namespace tierkv
