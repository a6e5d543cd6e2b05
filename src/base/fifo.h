// A queue that takes little memory while it is empty or short. std::deque keeps half a KB and its
// map even when it is empty, which is much for the thousands of queues of a rank that are mostly
// empty.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"

namespace r2ccl {

template <typename T>
class Fifo {
 public:
  using value_type = T;
  using iterator = typename std::vector<T>::iterator;
  using const_iterator = typename std::vector<T>::const_iterator;

  bool empty() const { return head_ == items_.size(); }
  size_t size() const { return items_.size() - head_; }
  const T& front() const { return items_[head_]; }
  const T& back() const { return items_.back(); }
  iterator begin() { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  iterator end() { return items_.end(); }
  const_iterator begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  const_iterator end() const { return items_.end(); }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }

  void push_back(T item) {
    // The taken items make room when they are at least as many as the rest, so each item moves at
    // most once for each item taken.
    if (items_.size() == items_.capacity() && head_ > 0 && head_ >= size()) {
      items_.erase(items_.begin(), begin());
      head_ = 0;
    }
    items_.push_back(std::move(item));
  }
  // Requires that the queue is not empty.
  void pop_front() {
    R2CCL_CHECK(!empty());
    ++head_;
    if (empty()) clear();
  }
  void clear() {
    items_.clear();
    head_ = 0;
    if (items_.capacity() > kKept) std::vector<T>().swap(items_);
  }

 private:
  static constexpr size_t kKept = 4;  // items for which an empty queue keeps its memory

  std::vector<T> items_;
  size_t head_ = 0;  // items taken at the front of items_
};

}  // namespace r2ccl
