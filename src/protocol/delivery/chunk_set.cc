#include "protocol/delivery/chunk_set.h"

#include <algorithm>
#include <bit>

namespace r2ccl {

std::vector<std::byte> ChunkSet::bitmap(size_t bytes_max) const {
  std::vector<std::byte> out;
  if (size_ == prefix_) return out;
  const size_t bits = std::min<size_t>(count_ - prefix_, bytes_max * 8);
  out.resize((bits + 7) / 8);
  for (size_t i = 0; i < bits; ++i) {
    if (contains(prefix_ + static_cast<uint32_t>(i))) {
      out[i / 8] |= static_cast<std::byte>(1u << (i % 8));
    }
  }
  while (!out.empty() && out.back() == std::byte{0}) out.pop_back();
  return out;
}

void ChunkSet::check_invariants() const {
  R2CCL_CHECK(prefix_ <= size_ && size_ <= count_);
  if (prefix_ == count_) return;
  R2CCL_CHECK(!contains(prefix_));
  if (prefix_ == size_) return;
  uint32_t size = 0;
  for (const uint64_t word : words_) size += static_cast<uint32_t>(std::popcount(word));
  R2CCL_CHECK(size == size_);
}

}  // namespace r2ccl
