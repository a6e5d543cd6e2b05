#include "runtime/collective/completion_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace r2ccl {

Result<int> CompletionEvent::descriptor() {
  const std::lock_guard lock(mutex_);
  if (closed_) return Status(Code::invalid_usage, "the communicator has ended");
  if (!file_.valid()) {
    file_ = GuardedFd::from([] { return eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); });
    if (!file_.valid()) return system_error("eventfd", errno);
    (void)wanted_.exchange(1, std::memory_order_acq_rel);
  }
  return file_.get();
}

void CompletionEvent::write() {
  const std::lock_guard lock(mutex_);
  if (!file_.valid()) return;
  const uint64_t one = 1;
  // It fails only when the counter is full, and then the descriptor is readable.
  (void)!::write(file_.get(), &one, sizeof one);
}

void CompletionEvent::close() {
  const std::lock_guard lock(mutex_);
  wanted_.store(0, std::memory_order_relaxed);
  closed_ = true;
  file_.reset();
}

}  // namespace r2ccl
