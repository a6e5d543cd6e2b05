// A fixed number of buffers for received segments that wait for their reduction. The number is
// fixed because the receiver's memory must not depend on the speed of its peers.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace r2ccl {

class StagingPool {
 public:
  StagingPool(size_t slot_bytes, size_t slot_count)
      : slot_bytes_(slot_bytes), slot_count_(slot_count) {}

  // Reserves the memory, which most communicators never need. It becomes resident only as slots are
  // used. Before that the pool is empty.
  void reserve();

  bool empty() const { return free_.empty(); }
  size_t slot_bytes() const { return slot_bytes_; }

  // Returns the slot that was released last, which is still in cache. Requires that the pool is not
  // empty.
  std::byte* take();
  void give_back(std::byte* slot) { free_.push_back(slot); }

 private:
  size_t slot_bytes_;
  size_t slot_count_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::byte*> free_;
};

}  // namespace r2ccl
