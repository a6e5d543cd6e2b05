// The memory of the simulated streams that hold bytes now. A large job has hundreds of thousands of
// streams, and few of them hold bytes at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace r2ccl::sim {

class RingPool {
 public:
  // Not initialised, so that a page to which no stream has written takes no memory.
  struct Ring {
    std::unique_ptr<std::byte[]> bytes;
    uint64_t size = 0;  // 0, or a power of two
  };

  // Returns a ring of at least `bytes`.
  Ring take(uint64_t bytes) {
    const uint64_t size = std::bit_ceil(std::max(bytes, kBytesMin));
    std::vector<Ring>& free = free_of(size);
    if (free.empty()) return {std::make_unique_for_overwrite<std::byte[]>(size), size};
    Ring ring = std::move(free.back());
    free.pop_back();
    return ring;
  }
  // Takes back a ring that came from take(), or an empty one.
  void give(Ring ring) {
    if (ring.size > 0) free_of(ring.size).push_back(std::move(ring));
  }

  // Returns the number of rings that no stream has now.
  size_t unused() const {
    size_t sum = 0;
    for (const std::vector<Ring>& each : free_) sum += each.size();
    return sum;
  }

 private:
  static constexpr uint64_t kBytesMin = 4096;

  std::vector<Ring>& free_of(uint64_t size) {
    return free_[static_cast<size_t>(std::countr_zero(size))];
  }

  std::array<std::vector<Ring>, 64> free_;  // by the logarithm of their size
};

}  // namespace r2ccl::sim
