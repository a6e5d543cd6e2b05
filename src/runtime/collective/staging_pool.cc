#include "runtime/collective/staging_pool.h"

#include "base/check.h"

namespace r2ccl {

StagingPool::StagingPool(size_t slot_bytes, size_t slot_count)
    : slot_bytes_(slot_bytes), memory_(new std::byte[slot_bytes * slot_count]) {
  free_.reserve(slot_count);
  for (size_t i = slot_count; i > 0; --i) free_.push_back(memory_.get() + (i - 1) * slot_bytes);
}

std::byte* StagingPool::take() {
  R2CCL_CHECK(!free_.empty());
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace r2ccl
