#include "runtime/engine/progress_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"
#include "runtime/config/signals_blocked.h"

namespace r2ccl {

ProgressThread::~ProgressThread() {
  stop();
  while (posted_ != nullptr) delete std::exchange(posted_, posted_->next);
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
  while (!stop_ && !has_waiters()) progress(kNever, lock);
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
  auto posted = std::make_unique<Posted>();
  posted->work = std::move(work);
  enqueue(*posted.release());
}

void ProgressThread::enqueue(Posted& posted) {
  const Lock lock(mutex_);
  (posted_ == nullptr ? posted_ : posted_last_->next) = &posted;
  posted_last_ = &posted;
  if (driven_) poller_.wake();
}

void ProgressThread::run_posted() {
  Posted* posted = nullptr;
  {
    const Lock lock(mutex_);
    posted = std::exchange(posted_, nullptr);
  }
  while (posted != nullptr) {
    Posted& each = *std::exchange(posted, posted->next);
    if (each.called == nullptr) {
      const std::unique_ptr<Posted> owned(&each);
      guarded(each.work);
    } else {
      guarded(*each.called);
      each.ran.store(true, std::memory_order_release);  // ends its life
    }
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

void ProgressThread::wake() {
  const Lock lock(mutex_);
  woken_ = true;
  if (driven_) poller_.wake();
}

void ProgressThread::call(const std::function<void()>& work) {
  Posted posted;
  posted.called = &work;
  enqueue(posted);
  const auto ran = [&posted] { return posted.ran.load(std::memory_order_acquire); };
  if (!wait_until(ran, kNever)) forget(posted);
}

// Takes work that will never run out of the queue.
void ProgressThread::forget(const Posted& posted) {
  const Lock lock(mutex_);
  Posted* before = nullptr;
  for (Posted* each = posted_; each != nullptr; before = std::exchange(each, each->next)) {
    if (each != &posted) continue;
    (before == nullptr ? posted_ : before->next) = each->next;
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
  free_until_ = clock_.now() + kReturnTime;
  nap_ = std::min(nap_, kNapMax);
  if (hurry_ || resting_until_ > free_until_ + kNapMax) needed_.notify_one();
}

}  // namespace r2ccl
