// A queue that takes little memory while it is empty or short. std::deque keeps half a KB and its
// map even when it is empty, which is much for the thousands of queues of a rank that are mostly
// empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <type_traits>
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
  T& front() { return items_[head_]; }
  const T& front() const { return items_[head_]; }
  const T& back() const { return items_.back(); }
  // Counts from the front.
  T& operator[](size_t index) { return items_[head_ + index]; }
  const T& operator[](size_t index) const { return items_[head_ + index]; }
  iterator begin() { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  iterator end() { return items_.end(); }
  const_iterator begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  const_iterator end() const { return items_.end(); }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }

  // This and the next end the references to the other items.
  void push_back(T item) {
    make_room();
    items_.push_back(std::move(item));
  }
  // Appends a default item, and returns it.
  T& emplace_back() {
    make_room();
    return items_.emplace_back();
  }
  // Requires that the queue is not empty.
  void pop_front() {
    R2CCL_CHECK(!empty());
    // The item may hold memory, which must not wait for the others.
    if constexpr (!std::is_trivially_destructible_v<T>) {
      static_assert(std::is_nothrow_default_constructible_v<T>);
      std::destroy_at(&items_[head_]);
      std::construct_at(&items_[head_]);
    }
    ++head_;
    if (empty()) clear();
  }
  void erase_if(const auto& predicate) {
    items_.erase(std::remove_if(begin(), end(), predicate), end());
    if (empty()) clear();
  }
  void clear() {
    items_.clear();
    head_ = 0;
    if (items_.capacity() > kKept) std::vector<T>().swap(items_);
  }

 private:
  // The taken items make room when they are at least as many as the rest, so each item moves at
  // most once for each item taken.
  void make_room() {
    if (items_.size() < items_.capacity() || head_ == 0 || head_ < size()) return;
    items_.erase(items_.begin(), begin());
    head_ = 0;
  }

  // Items for which an empty queue keeps its memory: some KB, so that a queue that often becomes
  // empty need not allocate.
  static constexpr size_t kKept = std::max<size_t>(2048 / sizeof(T), 4);

  std::vector<T> items_;
  size_t head_ = 0;  // items taken at the front of items_
};

}  // namespace r2ccl
