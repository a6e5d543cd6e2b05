// The end of one operation, for the thread that waits for it. The driving thread completes it; that
// is the waiting thread itself, where no other one drives. During a long wait the driving thread
// also keeps the cause of the wait here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/request_driver.h"
#include "base/status.h"
#include "runtime/collective/completion_event.h"
#include "runtime/collective/pending_call.h"

namespace r2ccl {

class Request;

// The cause of a long wait.
struct WaitCause {
  std::string text;     // "AllReduce 11 (...): waiting for rank 2 (...)"; empty: not known yet
  Rank late = kNoRank;  // the rank of that text, if it is known to be late
};

// The requests of a communicator that a thread has waited in for some time. Lives as long as the
// communicator and each request. Any thread.
class AwaitedRequests {
 public:
  explicit AwaitedRequests(std::shared_ptr<RequestDriver> driver) : driver_(std::move(driver)) {}
  RequestDriver& driver() { return *driver_; }
  CompletionEvent& completions() { return completions_; }

  // Neither needs memory: a wait must not fail while its operation goes on. Several threads may add
  // a request. `hurried`: the bound of the wait ends soon.
  void add(Request& request, bool hurried) noexcept;
  void remove(Request& request) noexcept;
  // Grows with every add and remove.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  bool take_hurried();
  void for_each(const std::function<void(Request&)>& visit);

 private:
  const std::shared_ptr<RequestDriver> driver_;
  CompletionEvent completions_;
  std::mutex mutex_;  // guards the members below
  Request* first_ = nullptr;
  bool hurried_ = false;
  std::atomic<uint64_t> changes_{0};
};

// Told in the driving thread that a request has completed. It must not call the request.
class RequestListener {
 public:
  virtual void on_complete() = 0;

 protected:
  ~RequestListener() = default;
};

class Request {
 public:
  Request() = default;
  Request(PendingCall call, std::shared_ptr<AwaitedRequests> awaited)
      : call_(std::move(call)), awaited_(std::move(awaited)) {}

  void complete(const Status& status);
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Returns false when `timeout` (kNever: no bound) passed first.
  bool wait(TimeNs timeout);
  // Tells one listener of the end; after unlisten() it is told no more. Returns false when the
  // request is done: then the listener is not told.
  bool listen(RequestListener& listener);
  void unlisten();
  // Requires a request of a communicator.
  RequestDriver& driver() { return awaited_->driver(); }
  // Returns how long a wait with this bound lasts before it counts as a long one. Other ranks are
  // asked for the cause of a long one.
  static TimeNs quiet_wait(TimeNs timeout);
  // A wait has become a long one, which lasts for `left` at most.
  void begin_long_wait(TimeNs left);
  void end_long_wait();
  // Requires that the request is done.
  Status status() const;
  // Returns the cause of a wait that timed out.
  WaitCause wait_cause() const;

  // In the driving thread only.
  const PendingCall& call() const { return call_; }
  void set_number(uint64_t number) { call_.number = number; }
  void set_wait_cause(WaitCause cause);

 private:
  bool wait_for(TimeNs timeout);

  friend class AwaitedRequests;

  PendingCall call_;
  const std::shared_ptr<AwaitedRequests> awaited_;
  size_t waits_ = 0;  // how often it is among awaited_; this and the next are guarded by its lock
  Request* next_awaited_ = nullptr;
  std::atomic<bool> done_{false};
  mutable std::mutex mutex_;  // guards the members below, and the change of done_
  mutable std::condition_variable ended_;
  RequestListener* listener_ = nullptr;
  Status status_;
  WaitCause wait_cause_;
};

}  // namespace r2ccl
