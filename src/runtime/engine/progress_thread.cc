#include "runtime/engine/progress_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/signals_blocked.h"

namespace r2ccl {

// Posted work without a waiting caller.
struct ProgressThread::Posted final : DriverTask {
  explicit Posted(std::function<void()> given) : work(std::move(given)) {}
  void run() override {
    const std::unique_ptr<Posted> owned(this);
    work();
  }
  void drop() override { delete this; }
  const std::function<void()> work;
};

// The work of a caller that waits for it.
struct ProgressThread::Called final : DriverTask {
  explicit Called(const std::function<void()>& given) : work(given) {}
  void run() override {
    struct Ran {
      std::atomic<bool>& flag;
      ~Ran() { flag.store(true, std::memory_order_release); }  // ends the task's life
    } const at_the_end{ran};
    work();
  }
  const std::function<void()>& work;
  std::atomic<bool> ran{false};
};

ProgressThread::~ProgressThread() {
  stop();
  while (posted_ != nullptr) std::exchange(posted_, posted_->next_)->drop();
}

void ProgressThread::start() {
  R2CCL_CHECK(!running());
  const SignalsBlocked blocked;  // no signal of the application is ever delivered to the thread
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "r2ccl");
}

void ProgressThread::stop() {
  if (!running()) return;
  {
    Lock lock(mutex_);
    stop_ = true;
    if (driven_) poller_.wake();
    waited_.notify_all();
    needed_.notify_all();
    waited_.wait(lock, [this] { return !driven_ && !has_waiters(); });
  }
  thread_.join();
}

bool ProgressThread::stopped() {
  const Lock lock(mutex_);
  return stop_;
}

void ProgressThread::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    driver_.on_exception(error);
  }
}

void ProgressThread::run() {
  Lock lock(mutex_);
  while (!stop_) {
    if (driven_ || has_waiters()) {
      const TimeNs nap = nap_;
      nap_ = std::min(2 * nap_, kRestMax);  // before the rest, because a wait that ends bounds it
      rest(lock, clock_.now() + nap);
    } else if (!hurry_ && clock_.now() < free_until_) {
      rest(lock, free_until_);
    } else {
      drive_until_wanted(lock);
    }
  }
}

void ProgressThread::rest(Lock& lock, TimeNs until) {
  resting_until_ = until;
  needed_.wait_for(lock, std::chrono::nanoseconds(until - clock_.now()));
}

// Drives until a caller waits, who then drives.
void ProgressThread::drive_until_wanted(Lock& lock) {
  R2CCL_CHECK(lock.owns_lock() && !driven_);
  hurry_ = false;
  nap_ = kNapMin;
  driven_ = thread_drives_ = true;
  while (!stop_ && !has_waiters() && !polled_) progress(kNever, lock);
  if (std::exchange(polled_, false)) leave_to_callers();
  driven_ = thread_drives_ = false;
  waited_.notify_all();
}

void ProgressThread::drive_for(const Waiter& waiter, TimeNs deadline, Lock& lock) {
  R2CCL_CHECK(lock.owns_lock() && !driven_);
  driven_ = true;
  look_for_waiters();  // what the caller waits for may hold since the last pass
  while (!stop_ && !waiter.held) {
    const TimeNs left = deadline == kNever ? kNever : deadline - clock_.now();
    if (left <= 0) break;
    progress(left, lock);
    if (has_several_waiters() && !waiter.held) give_way(lock);
  }
  driven_ = false;
}

// A caller whose wait has just ended must run before it can go on, and the peers of its next
// operation may share the cores. A driver with much work never sleeps, so the kernel would let them
// wait for the rest of its time slice.
void ProgressThread::give_way(Lock& lock) {
  lock.unlock();
  yield_();
  lock.lock();
}

// Work that is posted later, and a later wake-up, end the poller's wait.
void ProgressThread::progress(TimeNs wait_max, Lock& lock) {
  R2CCL_CHECK(lock.owns_lock() && driven_);
  const TimeNs wait = posted_ == nullptr && !std::exchange(woken_, false) ? wait_max : 0;
  lock.unlock();
  guarded([this, wait] { driver_.progress(wait); });
  lock.lock();
  look_for_waiters();
}

void ProgressThread::look_for_waiters() {
  bool any = false;
  for (Waiter* waiter = waiters_; waiter != nullptr; waiter = waiter->next) {
    if (waiter->held) continue;
    guarded([waiter] { waiter->held = waiter->done(); });
    any = any || waiter->held;
  }
  // A lone waiter drives, or sees it before it sleeps.
  if (any && (has_several_waiters() || thread_drives_)) waited_.notify_all();
}

void ProgressThread::post(std::function<void()> work) {
  post(*std::make_unique<Posted>(std::move(work)).release());
}

void ProgressThread::post(DriverTask& task) {
  const Lock lock(mutex_);
  task.next_ = nullptr;
  (posted_ == nullptr ? posted_ : posted_last_->next_) = &task;
  posted_last_ = &task;
  if (driven_) poller_.wake();
}

void ProgressThread::run_posted() {
  DriverTask* posted = nullptr;
  {
    const Lock lock(mutex_);
    posted = std::exchange(posted_, nullptr);
  }
  while (posted != nullptr) {
    DriverTask& each = *std::exchange(posted, posted->next_);
    guarded([&each] { each.run(); });
  }
}

void ProgressThread::hand_over() {
  const Lock lock(mutex_);
  if (driven_ || has_waiters()) return;
  hurry_ = true;
  needed_.notify_one();
}

void ProgressThread::drive_once() {
  Lock lock(mutex_);
  if (driven_ || has_waiters() || stop_) return;
  driven_ = true;
  progress(0, lock);
  driven_ = false;
  give_up_driving();
}

void ProgressThread::poll() {
  Lock lock(mutex_);
  if (thread_drives_ && !std::exchange(polled_, true)) poller_.wake();
  if (driven_ || has_waiters() || stop_) return;
  driven_ = true;
  progress(0, lock);
  driven_ = false;
  stop_ || has_waiters() ? waited_.notify_all() : leave_to_callers();
}

// The progress thread takes over after a while in which none of them has driven.
void ProgressThread::leave_to_callers() {
  free_until_ = clock_.now() + kReturnTime;
  nap_ = std::min(nap_, kNapMax);
  if (resting_until_ > free_until_ + kNapMax) needed_.notify_one();
}

void ProgressThread::wake() {
  const Lock lock(mutex_);
  woken_ = true;
  if (driven_) poller_.wake();
}

void ProgressThread::call(const std::function<void()>& work) {
  Called called(work);
  post(called);
  const auto ran = [&called] { return called.ran.load(std::memory_order_acquire); };
  if (!wait_until(ran, kNever)) forget(called);
}

// Takes work that will never run out of the queue.
void ProgressThread::forget(const DriverTask& task) {
  const Lock lock(mutex_);
  DriverTask* before = nullptr;
  for (DriverTask* each = posted_; each != nullptr; before = std::exchange(each, each->next_)) {
    if (each != &task) continue;
    (before == nullptr ? posted_ : before->next_) = each->next_;
    if (posted_last_ == each) posted_last_ = before;
    return;
  }
}

bool ProgressThread::wait_until(const std::function<bool()>& done, TimeNs timeout) {
  if (timeout <= 0) return false;
  Waiter waiter{done};
  const TimeNs now = timeout == kNever ? 0 : clock_.now();
  const TimeNs deadline = timeout >= kNever - now ? kNever : now + timeout;
  Lock lock(mutex_);
  if (stop_) return false;
  waiter.next = std::exchange(waiters_, &waiter);
  if (driven_) poller_.wake();  // that thread may have looked for waiters just before
  while (!waiter.held && !stop_) {
    const TimeNs left = deadline == kNever ? kNever : deadline - clock_.now();
    if (left <= 0) break;
    if (!driven_) {
      drive_for(waiter, deadline, lock);
    } else if (deadline == kNever) {
      waited_.wait(lock);
    } else {
      waited_.wait_for(lock, std::chrono::nanoseconds(left));
    }
  }
  leave(waiter);
  return waiter.held;
}

// Ends a wait.
void ProgressThread::leave(const Waiter& waiter) {
  Waiter** at = &waiters_;
  while (*at != &waiter) {
    R2CCL_CHECK(*at != nullptr);
    at = &(*at)->next;
  }
  *at = waiter.next;
  give_up_driving();
}

// Lets another waiter, or else the progress thread, drive.
void ProgressThread::give_up_driving() {
  if (stop_ || has_waiters()) return waited_.notify_all();
  if (driven_) return;
  hurry_ = driver_.busy();
  leave_to_callers();
  if (hurry_) needed_.notify_one();
}

}  // namespace r2ccl
