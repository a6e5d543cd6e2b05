// The memory that r2cclMemAlloc has given out in this process.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "base/status.h"

namespace r2ccl::api {

// Any thread may call it.
class GivenMemory {
 public:
  Result<void*> allocate(size_t bytes);
  // Returns false if allocate() did not return the pointer, or it was freed.
  bool free(void* memory);

  // Held around fork(), as HandleTable: a child may free its copies.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;               // guards given_; held across fork
  std::map<void*, size_t> given_;  // the bytes of each mapping
};

GivenMemory& given_memory();

}  // namespace r2ccl::api
