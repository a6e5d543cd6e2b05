// A descriptor that becomes readable when an operation of a communicator completes, for callers who
// wait in poll() or epoll. Until a caller asks for it, it costs some nanoseconds per operation.
//
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/fork_guard.h"
#include "base/status.h"

namespace r2ccl {

class CompletionEvent {
 public:
  // Returns the descriptor, an eventfd: the first call makes it, readable, because operations may
  // have completed before. It stays readable from a completion until the caller reads it.
  Result<int> descriptor();
  // An operation has completed, or the communicator has failed.
  void signal() {
    // Not a load: either this sees the caller's exchange, or the caller sees the completion.
    if (wanted_.fetch_add(0, std::memory_order_acq_rel) != 0) write();
  }
  // Closes the descriptor for good.
  void close();

 private:
  void write();

  std::atomic<uint32_t> wanted_{0};
  std::mutex mutex_;  // guards the members below
  GuardedFd file_;
  bool closed_ = false;
};

}  // namespace r2ccl
