#include "runtime/collective/request.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace r2ccl {
namespace {

// A shorter wait costs nothing more.
constexpr TimeNs kAwaitedAfter = 1 * kSecond;
// A caller with a shorter bound polls. Questions to other ranks would cost more than they tell.
constexpr TimeNs kBoundMin = 20 * kMillisecond;
// Within a longer bound the regular questions are answered.
constexpr TimeNs kBoundShort = 5 * kSecond;

}  // namespace

void AwaitedRequests::add(Request& request, bool hurried) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (request.waits_++ == 0) request.next_awaited_ = std::exchange(first_, &request);
    hurried_ = hurried_ || hurried;
    changes_.fetch_add(1, std::memory_order_release);
  }
  driver_->wake();
}

void AwaitedRequests::remove(Request& request) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (--request.waits_ == 0) {
      Request** at = &first_;
      while (*at != &request) at = &(*at)->next_awaited_;
      *at = request.next_awaited_;
    }
    changes_.fetch_add(1, std::memory_order_release);
  }
  driver_->wake();
}

bool AwaitedRequests::take_hurried() {
  std::lock_guard lock(mutex_);
  return std::exchange(hurried_, false);
}

void AwaitedRequests::for_each(const std::function<void(Request&)>& visit) {
  std::lock_guard lock(mutex_);
  for (Request* each = first_; each != nullptr; each = each->next_awaited_) visit(*each);
}

void Request::complete(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
    done_.store(true, std::memory_order_release);
    ended_.notify_all();
    if (listener_ != nullptr) listener_->on_complete();
  }
  if (awaited_ != nullptr) awaited_->completions().signal();
}

bool Request::listen(RequestListener& listener) {
  const std::lock_guard lock(mutex_);
  if (done()) return false;
  listener_ = &listener;
  return true;
}

void Request::unlisten() {
  const std::lock_guard lock(mutex_);
  listener_ = nullptr;
}

TimeNs Request::quiet_wait(TimeNs timeout) {
  return timeout < kBoundMin ? timeout : std::min(kAwaitedAfter, timeout / 2);
}

void Request::begin_long_wait(TimeNs left) {
  awaited_->add(*this, left < kBoundShort);
}

void Request::end_long_wait() {
  awaited_->remove(*this);
}

bool Request::wait(TimeNs timeout) {
  if (done()) return true;
  const TimeNs quiet = quiet_wait(timeout);
  if (awaited_ == nullptr || quiet == timeout) return wait_for(timeout);
  if (wait_for(quiet)) return true;
  const TimeNs left = timeout == kNever ? kNever : timeout - quiet;
  begin_long_wait(left);
  const bool ended = wait_for(left);
  end_long_wait();
  return ended;
}

bool Request::wait_for(TimeNs timeout) {
  if (awaited_ != nullptr) {
    RequestDriver& driver = awaited_->driver();
    if (driver.wait_until([this] { return done(); }, timeout)) return true;
    if (!driver.stopped()) return done();
  }
  // A communicator that ends completes its requests.
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return done(); };
  if (timeout != kNever) return ended_.wait_for(lock, std::chrono::nanoseconds(timeout), ended);
  ended_.wait(lock, ended);
  return true;
}

Status Request::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

WaitCause Request::wait_cause() const {
  std::lock_guard lock(mutex_);
  return wait_cause_;
}

void Request::set_wait_cause(WaitCause cause) {
  std::lock_guard lock(mutex_);
  wait_cause_ = std::move(cause);
}

}  // namespace r2ccl
