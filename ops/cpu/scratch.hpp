// Per-thread working memory. It grows to the largest size seen and is never cleared in a step:
// marks carry the number of the row that set them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tierkv {

// For each key the place that was first noted under it since `begin`.
class FirstPlace {
 public:
  // `places` is the number of different places, at most 2^24.
  void begin(std::int64_t keys, std::int64_t places) {
    int bits = bits_;
    while ((std::int64_t{1} << bits) < places) ++bits;
    const bool grown = static_cast<std::int64_t>(marks_.size()) < keys;
    if (grown) marks_.resize(keys);
    if (grown || bits != bits_ || ++epoch_ >> (32 - bits) != 0) {
      std::fill(marks_.begin(), marks_.end(), 0u);
      bits_ = bits;
      epoch_ = 1;
    }
  }

  void prefetch(std::int32_t key) const { __builtin_prefetch(&marks_[key], 1, 3); }

  // The place first noted under `key`, which is `place` itself if there was none.
  std::int32_t note(std::int32_t key, std::int32_t place) {
    std::uint32_t& mark = marks_[key];
    if (mark >> bits_ == epoch_) return static_cast<std::int32_t>(mark & ((1u << bits_) - 1));
    mark = epoch_ << bits_ | static_cast<std::uint32_t>(place);
    return place;
  }

 private:
  std::vector<std::uint32_t> marks_;
  int bits_ = 12;  // grows only: batches of several shapes share the marks
  std::uint32_t epoch_ = 0;
};

// A set of small numbers, emptied by `begin` at no cost 254 times out of 255.
class MarkSet {
 public:
  void begin(std::int64_t keys) {
    const bool grown = static_cast<std::int64_t>(marks_.size()) < keys;
    if (grown) marks_.resize(keys);
    if (grown || ++epoch_ == 0) {
      std::fill(marks_.begin(), marks_.end(), std::uint8_t{0});
      epoch_ = 1;
    }
  }

  std::int64_t size() const { return static_cast<std::int64_t>(marks_.size()); }
  void grow(std::int64_t keys) { marks_.resize(keys); }
  std::uint8_t* data() { return marks_.data(); }
  std::uint8_t epoch() const { return epoch_; }
  bool has(std::int64_t key) const { return marks_[key] == epoch_; }
  void add(std::int64_t key) { marks_[key] = epoch_; }
  void drop(std::int64_t key) { marks_[key] = epoch_ - 1; }

 private:
  std::vector<std::uint8_t> marks_;
  std::uint8_t epoch_ = 0;
};

struct Scratch {
  FirstPlace first;
  MarkSet slots;
  std::vector<std::uint64_t> seen;  // all zero between uses
  std::vector<std::int32_t> heads;  // all zero between uses
  std::vector<std::uint64_t> bits;
  std::vector<std::int32_t> order;

  static Scratch& mine() {
    thread_local Scratch scratch;
    return scratch;
  }
};

// Grow only, so that after the first steps nothing is allocated.
template <class T>
T* at_least(std::vector<T>& memory, std::int64_t size) {
  if (static_cast<std::int64_t>(memory.size()) < size) memory.resize(size);
  return memory.data();
}

}  // namespace tierkv
