// Runs the driver of a process: in the thread of a caller that waits, else in a thread of its own.
// Other threads post work, or wait until something holds.
//
// One thread at a time drives. A caller that waits drives by itself, as in MPI libraries: a
// hand-over to another thread and back would cost each call two thread switches. The progress
// thread drives while no caller waits, so acknowledgements and heartbeats never depend on calls.
// When the last wait ends, the thread takes over at once if the driver has work left, else after
// kReturnTime: a caller usually calls again. The alternative not taken is a thread that always
// drives and spins between events: it takes a core from the application.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/request_driver.h"
#include "transport/transport.h"

namespace r2ccl {

// A process's engine as the thread that drives it sees it.
class ProgressDriver {
 public:
  virtual ~ProgressDriver() = default;
  // Waits until the poller has events or is woken, or something is due, but at most `wait_max`
  // (kNever: no bound); then does all that is due. Calls ProgressThread::run_posted() once, after
  // the wait.
  virtual void progress(TimeNs wait_max) = 0;
  // Returns whether work is left that must not wait for kReturnTime.
  virtual bool busy() const = 0;
  // progress() or posted work has thrown. The next pass follows.
  virtual void on_exception(const std::exception& error) noexcept = 0;
};

// Work for the driving thread.
class DriverTask {
 public:
  // Once this has begun, the task may be posted again, or end its own life.
  virtual void run() = 0;
  // The driver ends, and this never runs.
  virtual void drop() {}

 protected:
  DriverTask() = default;
  DriverTask(const DriverTask&) = delete;
  DriverTask& operator=(const DriverTask&) = delete;
  ~DriverTask() = default;

 private:
  friend class ProgressThread;
  DriverTask* next_ = nullptr;
};

class ProgressThread final : public RequestDriver {
 public:
  // As long as a state change may wait for others.
  static constexpr TimeNs kReturnTime = 500 * kMicrosecond;
  // The thread looks so often at first, and at most so rarely while waits are short: no
  // acknowledgement is later than kReturnTime and this. The failure detector hedges nothing that is
  // late by less than 3 ms.
  static constexpr TimeNs kNapMin = kReturnTime / 2;
  static constexpr TimeNs kNapMax = 2 * kMillisecond;
  // The longest time between two looks while one wait goes on.
  static constexpr TimeNs kRestMax = 1 * kSecond;

  // All must live until stop() has returned. `yield` gives the core to another thread that is
  // ready.
  ProgressThread(Poller& poller, ProgressDriver& driver, const Clock& clock,
                 std::function<void()> yield = std::this_thread::yield)
      : poller_(poller), driver_(driver), clock_(clock), yield_(std::move(yield)) {}
  ~ProgressThread() override;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void start();
  // Ends all waits, and returns when no thread drives any more. Work that was posted and has not
  // begun never runs.
  void stop();
  bool running() const { return thread_.joinable(); }

  // Each of these is legal in any thread that does not drive:
  // Runs `work` in the driving thread, in the order of the calls. The caller should then wait, or
  // call hand_over() or drive_once(); else the work may wait for kReturnTime.
  void post(std::function<void()> work);
  // The same without memory of this class. `task` must live until it has run.
  void post(DriverTask& task);
  // Makes the progress thread drive at once, unless a caller drives.
  void hand_over();
  // Unless another thread drives: drives for one pass, without a wait. If work is left then, the
  // progress thread goes on at once. A small operation often ends in this pass, or at least its
  // bytes leave; to wake the thread costs more than either.
  void drive_once();
  // The same for a caller that asks again and again whether something is complete. It drives from
  // its next call on, if the progress thread drives now, and gives that thread no work in between.
  void poll();
  // Returns when `work` has run in the driving thread. Requires running().
  void call(const std::function<void()>& work);
  // RequestDriver; `done` is called under the lock of this class, which it must not enter.
  bool wait_until(const std::function<bool()>& done, TimeNs timeout) override;
  bool stopped() override;
  void wake() override;

  // From inside progress().
  void run_posted();

 private:
  // A wait, and work that a caller waits for, are in their callers' frames. They need no memory, so
  // a communicator can be ended without any.
  struct Waiter {
    const std::function<bool()>& done;
    bool held = false;
    Waiter* next = nullptr;
  };
  struct Posted;
  struct Called;
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void drive_until_wanted(Lock& lock);
  void drive_for(const Waiter& waiter, TimeNs deadline, Lock& lock);
  void progress(TimeNs wait_max, Lock& lock);
  void forget(const DriverTask& task);
  bool has_waiters() const { return waiters_ != nullptr; }
  bool has_several_waiters() const { return has_waiters() && waiters_->next != nullptr; }
  void look_for_waiters();
  void give_way(Lock& lock);
  void leave(const Waiter& waiter);
  void give_up_driving();
  void leave_to_callers();
  void rest(Lock& lock, TimeNs until);
  void guarded(const std::function<void()>& work);

  Poller& poller_;
  ProgressDriver& driver_;
  const Clock& clock_;
  const std::function<void()> yield_;

  std::mutex mutex_;  // guards the members below
  bool stop_ = false;
  bool driven_ = false;           // some thread drives
  bool thread_drives_ = false;    // implies driven_: it is the progress thread
  bool woken_ = false;            // the next pass must not wait
  bool polled_ = false;           // a caller polls: the progress thread leaves the driver to it
  DriverTask* posted_ = nullptr;  // oldest first
  DriverTask* posted_last_ = nullptr;  // valid unless posted_ is null
  Waiter* waiters_ = nullptr;          // one of them drives, or will
  std::condition_variable waited_;     // for them: one holds, or the driver is free
  std::condition_variable needed_;     // for the progress thread: take over, or rest less
  bool hurry_ = false;                 // the progress thread must not wait for free_until_
  TimeNs free_until_ = 0;              // the time that the progress thread leaves to callers
  TimeNs resting_until_ = 0;           // when the progress thread looks again
  // The progress thread looks after this time whether a caller still drives, so that the end of a
  // short wait need not wake it. It doubles with each look in vain. Each look takes the core from a
  // rank that has work: with 32 ranks on two cores, looks every 0.25 ms took a tenth of both.
  TimeNs nap_ = kNapMin;

  std::thread thread_;
};

}  // namespace r2ccl
