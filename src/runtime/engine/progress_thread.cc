#include "runtime/engine/progress_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "runtime/config/signals_blocked.h"

namespace r2ccl {

void ProgressThread::start() {
  const SignalsBlocked blocked;  // no signal of the application is ever delivered to the thread
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "r2ccl");
}

void ProgressThread::stop() {
  if (!running()) return;
  stop_.store(true, std::memory_order_release);
  poller_.wake();
  thread_.join();
}

void ProgressThread::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    driver_.on_exception(error);
  }
}

void ProgressThread::run() {
  const LogRank label(self_.value());
  while (!stop_.load(std::memory_order_acquire)) {
    guarded([this] { driver_.turn(); });
    if (waiting_.load(std::memory_order_acquire) > 0) look_for_waiters();
  }
}

void ProgressThread::post(std::function<void()> work) {
  {
    std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(work));
  }
  poller_.wake();
}

void ProgressThread::run_posted() {
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(posted_mutex_);
    if (posted_.empty()) return;
    work.swap(posted_);
  }
  for (const auto& each : work) guarded(each);
}

void ProgressThread::call(const std::function<void()>& work) {
  std::atomic<bool> ran = false;
  post([&] {
    guarded(work);
    ran.store(true, std::memory_order_release);
  });
  wait_until([&ran] { return ran.load(std::memory_order_acquire); }, kNever);
}

bool ProgressThread::wait_until(const std::function<bool()>& done, TimeNs timeout) {
  Waiter waiter{done};
  std::unique_lock lock(waiters_mutex_);
  waiters_.push_back(&waiter);
  waiting_.fetch_add(1, std::memory_order_release);
  poller_.wake();
  const auto held = [&waiter] { return waiter.held; };
  if (timeout == kNever) {
    held_.wait(lock, held);
  } else {
    held_.wait_for(lock, std::chrono::nanoseconds(timeout), held);
  }
  waiters_.erase(std::ranges::find(waiters_, &waiter));
  waiting_.fetch_sub(1, std::memory_order_release);
  return waiter.held;
}

void ProgressThread::look_for_waiters() {
  std::lock_guard lock(waiters_mutex_);
  bool any = false;
  for (Waiter* waiter : waiters_) {
    if (!waiter->held) guarded([waiter] { waiter->held = waiter->done(); });
    any = any || waiter->held;
  }
  if (any) held_.notify_all();
}

}  // namespace r2ccl
