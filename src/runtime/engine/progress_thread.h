// The thread that drives one rank, and the way into it for other threads: they post work, or wait
// until something holds. The driver itself belongs to this thread and needs no lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "transport/transport.h"

namespace r2ccl {

// A rank as its thread sees it.
class ProgressDriver {
 public:
  virtual ~ProgressDriver() = default;
  // Waits until the poller has events or is woken, or something is due; then does all that is due.
  // Calls ProgressThread::run_posted() once, after the wait.
  virtual void turn() = 0;
  // turn() or posted work has thrown. The thread goes on with the next turn.
  virtual void on_exception(const std::exception& error) = 0;
};

class ProgressThread {
 public:
  // Both must outlive this. `self` labels the thread's log lines.
  ProgressThread(Poller& poller, ProgressDriver& driver, Rank self)
      : poller_(poller), driver_(driver), self_(self) {}
  ~ProgressThread() { stop(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void start();
  // Returns when the thread has ended. Work that was posted and has not begun never runs.
  void stop();
  bool running() const { return thread_.joinable(); }

  // Runs `work` in the thread, in the order of the calls. Any thread.
  void post(std::function<void()> work);

  // Legal while the thread runs, from any other thread:
  // Returns when `work` has run in the thread.
  void call(const std::function<void()>& work);
  // Returns true as soon as `done` holds at the end of a turn, false after `timeout` (kNever: no
  // bound). The thread calls `done`, which must be short and must not call this class.
  bool wait_until(const std::function<bool()>& done, TimeNs timeout);

  // In the thread, from inside turn().
  void run_posted();

 private:
  struct Waiter {
    const std::function<bool()>& done;
    bool held = false;
  };
  void run();
  void guarded(const std::function<void()>& work);
  void look_for_waiters();

  Poller& poller_;
  ProgressDriver& driver_;
  const Rank self_;
  std::atomic<bool> stop_{false};

  std::mutex posted_mutex_;  // guards posted_
  std::vector<std::function<void()>> posted_;

  std::mutex waiters_mutex_;  // guards waiters_
  std::condition_variable held_;
  std::vector<Waiter*> waiters_;
  std::atomic<size_t> waiting_{0};  // their number: most turns have none and take no lock

  std::thread thread_;
};

}  // namespace r2ccl
