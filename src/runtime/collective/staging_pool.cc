#include "runtime/collective/staging_pool.h"

#include "base/check.h"

namespace r2ccl {

void StagingPool::reserve() {
  if (memory_ != nullptr) return;
  free_.reserve(slot_count_);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(slot_bytes_ * slot_count_);
  for (size_t i = slot_count_; i > 0; --i) free_.push_back(memory_.get() + (i - 1) * slot_bytes_);
}

std::byte* StagingPool::take() {
  R2CCL_CHECK(!free_.empty());
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace r2ccl
