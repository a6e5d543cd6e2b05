#include "protocol/delivery/spare_memory.h"

#include <algorithm>

namespace r2ccl {

// A block that is much larger than needed does not do: the held memory could then be many times the
// bound. The last block may still be in a cache.
std::vector<std::byte> SpareMemory::take(size_t bytes) {
  std::vector<std::byte> memory;
  const auto fits = std::find_if(blocks_.rbegin(), blocks_.rend(), [bytes](const auto& block) {
    return block.capacity() >= bytes && block.capacity() <= 4 * bytes;
  });
  if (fits == blocks_.rend()) {
    memory.reserve(bytes);
    return memory;
  }
  std::swap(*fits, blocks_.back());
  memory = std::move(blocks_.back());
  blocks_.pop_back();
  bytes_ -= memory.capacity();
  return memory;
}

void SpareMemory::give(std::vector<std::byte> memory) {
  const size_t bytes = memory.capacity();
  if (bytes == 0 || bytes_ + bytes > bytes_max_ || blocks_.size() == kBlocksMax) return;
  blocks_.push_back(std::move(memory));
  bytes_ += bytes;
}

void SpareMemory::clear() {
  blocks_.clear();
  bytes_ = 0;
}

void SpareMemory::check_invariants() const {
  uint64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block.capacity();
  R2CCL_CHECK(bytes == bytes_ && bytes <= bytes_max_);
}

}  // namespace r2ccl
