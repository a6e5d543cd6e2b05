// Memory of chunks and messages that are over, for reuse by the next ones. To free a large block
// each time would return it to the kernel, which clears it, and the allocator would clear it again;
// to free a small one would cost more than the copy of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace r2ccl {

class SpareMemory {
 public:
  // Holds at most `bytes_max` bytes.
  explicit SpareMemory(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Returns memory with room for so many bytes: spare, or new. Its size and bytes are any.
  std::vector<std::byte> take(size_t bytes);
  void give(std::vector<std::byte> memory);
  void clear();

  void check_invariants() const;

 private:
  static constexpr size_t kBlocksMax = 64;  // so that a search is short

  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;  // <= bytes_max_: the sum of the capacities in blocks_
  std::vector<std::vector<std::byte>> blocks_;
};

}  // namespace r2ccl
