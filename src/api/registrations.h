// The memory that a caller has registered with a communicator. A call whose buffer lies in it skips
// the check of the buffer, which costs a system call.
//
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "runtime/link/user_memory.h"

namespace r2ccl::api {

class Registrations {
 public:
  // Returns the handle, which is never null. `access`: write implies read.
  void* add(std::span<const std::byte> range, Access access);
  // Returns false if there is no such registration.
  bool remove(const void* handle);
  // Returns whether one registration holds the whole range. It may overlook one that overlaps
  // others.
  bool covers(std::span<const std::byte> range, Access access) const;

 private:
  struct Entry {
    uintptr_t end = 0;
    Access access = Access::read;
    uintptr_t number = 0;
  };
  static constexpr int kLooks = 4;

  std::atomic<size_t> count_{0};             // so that a communicator without any takes no lock
  mutable std::mutex mutex_;                 // guards the members below
  std::multimap<uintptr_t, Entry> entries_;  // by their begin
  uintptr_t last_ = 0;
};

}  // namespace r2ccl::api
