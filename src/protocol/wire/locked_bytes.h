// Secret bytes in memory of their own: locked against swapping, absent from core dumps, between
// guard pages, read-only once filled, and wiped when the last handle goes. Copies of a handle share
// the one copy of the bytes, so code may copy options and identities that hold a secret freely.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace r2ccl {

namespace crypto {

void wipe(std::span<std::byte> secret);

// An array that wipes itself.
template <size_t N>
struct Wiped : std::array<std::byte, N> {
  Wiped() : std::array<std::byte, N>{} {}
  Wiped(const Wiped&) = default;
  Wiped& operator=(const Wiped&) = default;
  ~Wiped() { wipe(*this); }
};

}  // namespace crypto

class LockedBytes {
 public:
  // Makes an empty handle.
  LockedBytes() = default;
  // `fill` writes the bytes, which are zero before. Nothing changes them afterwards. Requires
  // `size` > 0.
  static LockedBytes make(size_t size, const std::function<void(std::span<std::byte>)>& fill);
  static LockedBytes random(size_t size);
  static LockedBytes copy_of(std::span<const std::byte> bytes);

  bool empty() const { return memory_ == nullptr; }
  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }
  // Requires that there are 32 bytes.
  std::span<const std::byte, 32> key() const;

  // Takes the same time wherever the first difference is.
  friend bool operator==(const LockedBytes& a, const LockedBytes& b);

 private:
  std::shared_ptr<const std::byte> memory_;
  size_t size_ = 0;
};

}  // namespace r2ccl
