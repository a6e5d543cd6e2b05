// The accepted chunks of one message: a bit each, and the length of the unbroken prefix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/small_array.h"

namespace r2ccl {

class ChunkSet {
 public:
  ChunkSet() = default;
  explicit ChunkSet(uint32_t chunk_count)
      : count_(chunk_count), words_((uint64_t{chunk_count} + 63) / 64) {}

  uint32_t count() const { return count_; }
  uint32_t size() const { return size_; }
  uint32_t prefix() const { return prefix_; }
  bool full() const { return size_ == count_; }

  // Requires chunk < count().
  bool contains(uint32_t chunk) const {
    R2CCL_CHECK(chunk < count_);
    return chunk < prefix_ || ((words_[chunk / 64] >> (chunk % 64)) & 1) != 0;
  }

  // Requires chunk < count(). Returns whether the chunk was not in the set.
  bool insert(uint32_t chunk) {
    if (contains(chunk)) return false;
    words_[chunk / 64] |= uint64_t{1} << (chunk % 64);
    ++size_;
    while (prefix_ < count_ && ((words_[prefix_ / 64] >> (prefix_ % 64)) & 1) != 0) ++prefix_;
    return true;
  }

  // Returns the bits from the prefix on, at most `bytes_max` bytes, without trailing zero bytes.
  std::vector<std::byte> bitmap(size_t bytes_max) const;

  void check_invariants() const;

 private:
  uint32_t count_ = 0;
  uint32_t size_ = 0;              // <= count_: the bits that are set in words_
  uint32_t prefix_ = 0;            // <= size_: the first chunk that is not in the set
  SmallArray<uint64_t, 1> words_;  // a bit for each of count_ chunks
};

}  // namespace r2ccl
