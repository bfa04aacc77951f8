// A queue in tables that lets go of any of its numbers, in constant time: the reference's Queue.
#pragma once

#include <algorithm>
#include <cstdint>

#include "views.hpp"

namespace tierkv {

// Its tables, one row a lane.
struct QueueTables {
  Matrix<std::int32_t> items;  // [lanes, room], oldest first, -1 is a hole
  Matrix<std::int32_t> at;     // [lanes, numbers] place of each; without data where only the oldest leaves
  Matrix<std::int32_t> ends;   // [lanes, 3 or more], this queue's from `end_from` on
  int end_from = 0;

  // Whether the queue may hold `count` numbers in each of `lanes` lanes.
  bool fits(std::int64_t lanes, std::int64_t count, std::int64_t numbers) const {
    const bool placed = at.data == nullptr || (at.rows >= lanes && at.columns == numbers);
    return placed && items.rows >= lanes && items.columns == 2 * count && ends.rows >= lanes &&
           ends.columns >= end_from + 3;
  }
};

class Queue {
 public:
  // What stands in the tables is believed only as far as that nothing outside them is touched.
  Queue(const QueueTables& tables, std::int64_t lane)
      : items_(tables.items.row(lane)), at_(tables.at.data == nullptr ? nullptr : tables.at.row(lane)),
        ends_(tables.ends.row(lane) + tables.end_from),
        room_(static_cast<std::int32_t>(tables.items.columns)),
        end_(std::clamp(ends_[1], 0, room_)), first_(std::clamp(ends_[0], 0, end_)), count_(ends_[2]) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() {
    ends_[0] = first_;
    ends_[1] = end_;
    ends_[2] = count_;
  }

  std::int32_t count() const { return count_; }
  bool empty() const { return first_ == end_; }
  std::int32_t room() const { return room_; }
  std::int32_t oldest() const { return items_[first_]; }

  // Place of a number; -1 if it is out.
  std::int32_t place(std::int64_t number) const { return at_[number] < end_ ? at_[number] : -1; }
  std::int32_t number(std::int32_t place) const { return items_[place]; }

  // Place of the next newer one; the end if there is none.
  std::int32_t behind(std::int32_t place) const {
    do ++place;
    while (place < end_ && items_[place] < 0);
    return place;
  }

  std::int32_t first() const { return first_; }
  std::int32_t end() const { return end_; }

  // Take out what stands at a place between first and end.
  std::int32_t take(std::int32_t place) {
    const std::int32_t number = items_[place];
    items_[place] = -1;
    if (at_ != nullptr) at_[number] = -1;
    --count_;
    if (place == first_) first_ = behind(place);
    return number;
  }

  std::int32_t pop() { return take(first_); }

  // What moves up together: an arrival that finds no place behind the others moves all to the front.
  void make_room(std::int32_t arrivals) {
    if (end_ + arrivals > room_) close_up();
  }

  void push(std::int32_t number) {
    if (end_ == room_) return;  // only if the tables lie
    items_[end_] = number;
    if (at_ != nullptr) at_[number] = end_;
    ++end_;
    ++count_;
  }

  void append(std::int32_t number) {
    make_room(1);
    push(number);
  }

 private:
  void close_up() {
    std::int32_t n = 0;
    for (std::int32_t i = first_; i < end_; ++i) {
      const std::int32_t number = items_[i];
      items_[n] = number;
      n += number >= 0;
    }
    fill_minus_one(items_ + n, end_ - n);
    for (std::int32_t i = 0; at_ != nullptr && i < n; ++i) at_[items_[i]] = i;
    first_ = 0;
    end_ = n;
  }

  std::int32_t *items_, *at_, *ends_;
  std::int32_t room_, end_, first_, count_;
};

}  // namespace tierkv
