// Bytes on their way through a faulty NIC, kept in order until they may go on.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/clock.h"

namespace r2ccl {

class HeldBytes {
 public:
  // As much as a NIC's own queue and the socket buffers beside it; the writer blocks beyond it.
  static constexpr size_t kCapacity = size_t{64} << 10;

  void set_capacity(size_t bytes) { capacity_ = bytes; }
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t room() const { return capacity_ - std::min(size_, capacity_); }

  // Copies the bytes of `slices` that fit, to be released at `release_at`; returns their number.
  size_t append(std::span<const iovec> slices, TimeNs release_at);
  // Returns the oldest bytes, if they are released by `now`, in one piece; empty when there are
  // none.
  std::span<const uint8_t> front(TimeNs now) const;
  void drop_front(size_t bytes);
  // Returns when front() will next have bytes; kNever when nothing is held.
  TimeNs next_release() const { return parts_.empty() ? kNever : parts_.front().release_at; }

 private:
  struct Part {
    TimeNs release_at;
    std::vector<uint8_t> bytes;
    size_t dropped = 0;
  };
  std::deque<Part> parts_;
  size_t size_ = 0;
  size_t capacity_ = kCapacity;
};

// Returns the first `limit` bytes of `slices`, as slices.
std::vector<iovec> first_bytes(std::span<const iovec> slices, size_t limit);
size_t total_bytes(std::span<const iovec> slices);

}  // namespace r2ccl
