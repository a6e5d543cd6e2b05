// A fixed number of buffers for received segments that wait to be reduced. Fixed, because the
// receiver's memory must not depend on how fast its peers are.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace r2ccl {

class StagingPool {
 public:
  // Memory is reserved at once but becomes resident only as slots are used.
  StagingPool(size_t slot_bytes, size_t slot_count);

  bool empty() const { return free_.empty(); }
  size_t slot_bytes() const { return slot_bytes_; }

  // The slot released last comes first: it is the one still in cache. The pool must not be empty.
  std::byte* take();
  void give_back(std::byte* slot) { free_.push_back(slot); }

 private:
  size_t slot_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::byte*> free_;
};

}  // namespace r2ccl
