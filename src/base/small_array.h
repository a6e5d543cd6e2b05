// An array whose size is fixed when it is made. Up to kInline items lie in the object itself: the
// usual small one needs no memory of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace r2ccl {

template <typename T, size_t kInline>
class SmallArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallArray() = default;
  // All items are T().
  explicit SmallArray(size_t size)
      : size_(size), more_(size > kInline ? std::make_unique<T[]>(size) : nullptr) {}
  SmallArray(SmallArray&& other) noexcept { *this = std::move(other); }
  SmallArray& operator=(SmallArray&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    few_ = other.few_;
    more_ = std::move(other.more_);
    return *this;
  }
  ~SmallArray() = default;

  size_t size() const { return size_; }
  T& operator[](size_t index) { return begin()[index]; }
  const T& operator[](size_t index) const { return begin()[index]; }
  T* begin() { return more_ != nullptr ? more_.get() : few_.data(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return more_ != nullptr ? more_.get() : few_.data(); }
  const T* end() const { return begin() + size_; }

 private:
  size_t size_ = 0;
  std::array<T, kInline> few_{};  // the items, if they are few
  std::unique_ptr<T[]> more_;     // the items otherwise; null: they are few
};

}  // namespace r2ccl
