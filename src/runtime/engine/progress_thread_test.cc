#include "runtime/engine/progress_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace r2ccl {
namespace {

// A poller without descriptors: only wake() ends a wait.
class WakePoller final : public Poller {
 public:
  Status add(int, uint64_t, bool) override { return {}; }
  void modify(int, uint64_t, bool) override {}
  void remove(int) override {}
  size_t wait(std::span<PollEvent>, TimeNs timeout_ns) override {
    std::unique_lock lock(mutex_);
    const auto woken = [this] { return wakes_ > 0; };
    if (timeout_ns == kNever) {
      woken_.wait(lock, woken);
    } else {
      woken_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), woken);
    }
    wakes_ = 0;
    return 0;
  }
  void wake() override {
    std::lock_guard lock(mutex_);
    ++wakes_;
    woken_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
};

// A poller that always has something to report.
class BusyPoller final : public Poller {
 public:
  Status add(int, uint64_t, bool) override { return {}; }
  void modify(int, uint64_t, bool) override {}
  void remove(int) override {}
  size_t wait(std::span<PollEvent>, TimeNs) override { return 0; }
  void wake() override {}
};

class Driver final : public ProgressDriver {
 public:
  explicit Driver(
      Poller& poller, std::function<void()> yield = [] {})
      : poller_(poller), thread_(poller, *this, clock_, std::move(yield)) {
    thread_.start();
  }
  ~Driver() override { thread_.stop(); }
  ProgressThread& thread() { return thread_; }
  // The driving thread's, as all that a rank does.
  int passes = 0;
  std::thread::id driven_by;
  bool has_work = false;
  std::string error;

 private:
  void progress(TimeNs wait_max) override {
    poller_.wait({}, wait_max);
    driven_by = std::this_thread::get_id();
    thread_.run_posted();
    ++passes;
  }
  bool busy() const override { return has_work; }
  void on_exception(const std::exception& thrown) noexcept override { error = thrown.what(); }

  Poller& poller_;
  SystemClock clock_;
  ProgressThread thread_;
};

TEST(ProgressThread, RunsPostedWorkInOrderAndCallsReturnAfterIt) {
  WakePoller poller;
  Driver driver(poller);
  std::string order;
  for (const char each : {'a', 'b', 'c'}) {
    driver.thread().post([&order, each] { order += each; });
  }
  driver.thread().call([&order] { order += 'd'; });
  EXPECT_EQ(order, "abcd");
}

TEST(ProgressThread, EndsAWaitInTheTurnInWhichItsConditionHolds) {
  WakePoller poller;
  Driver driver(poller);
  bool holds = false;
  driver.thread().post([&holds] { holds = true; });
  EXPECT_TRUE(driver.thread().wait_until([&holds] { return holds; }, kNever));
  EXPECT_FALSE(driver.thread().wait_until([] { return false; }, 5 * kMillisecond));
}

TEST(ProgressThread, ACallerThatWaitsDrivesByItself) {
  WakePoller poller;
  Driver driver(poller);
  const auto driven_here = [here = std::this_thread::get_id()] {
    return std::this_thread::get_id() == here;
  };
  while (!driver.thread().wait_until(driven_here, kMillisecond)) {
  }
}

TEST(ProgressThread, DrivesAgainWhenNoCallerWaits) {
  for (const bool busy : {false, true}) {
    WakePoller poller;
    Driver driver(poller);
    driver.thread().call([&] { driver.has_work = busy; });
    std::mutex mutex;
    std::condition_variable ran;
    std::thread::id ran_in;
    driver.thread().post([&] {
      const std::lock_guard lock(mutex);
      ran_in = std::this_thread::get_id();
      ran.notify_one();
    });
    std::unique_lock lock(mutex);
    ran.wait(lock, [&] { return ran_in != std::thread::id(); });
    EXPECT_NE(ran_in, std::this_thread::get_id());
  }
}

TEST(ProgressThread, ACallerDrivesOnceAndLeavesTheRestToTheThread) {
  for (const bool busy : {false, true}) {
    WakePoller poller;
    Driver driver(poller);
    driver.thread().call([] {});  // the thread leaves this caller some time now
    std::thread::id ran_in;
    driver.thread().post([&] {
      ran_in = std::this_thread::get_id();
      driver.has_work = busy;
    });
    driver.thread().drive_once();
    EXPECT_EQ(ran_in, std::this_thread::get_id());
    std::promise<std::thread::id> later;
    driver.thread().post([&] { later.set_value(std::this_thread::get_id()); });
    EXPECT_NE(later.get_future().get(), std::this_thread::get_id());
  }
}

// The progress thread sleeps in its poller at first. It leaves the driver to the caller, and takes
// it back when the caller polls no more.
TEST(ProgressThread, ACallerThatPollsDrives) {
  class Task final : public DriverTask {
   public:
    void run() override { ran_in.store(std::this_thread::get_id()); }
    std::atomic<std::thread::id> ran_in;
  };
  WakePoller poller;
  Driver driver(poller);
  bool drove = false;
  for (int i = 0; i < 1000 && !drove; ++i) {
    Task task;
    driver.thread().post(task);
    while (task.ran_in.load() == std::thread::id()) driver.thread().poll();
    drove = task.ran_in.load() == std::this_thread::get_id();
  }
  EXPECT_TRUE(drove);
  std::promise<std::thread::id> later;
  driver.thread().post([&] { later.set_value(std::this_thread::get_id()); });
  EXPECT_NE(later.get_future().get(), std::this_thread::get_id());
}

TEST(ProgressThread, ATaskThatNeverRunsIsDropped) {
  class Task final : public DriverTask {
   public:
    void run() override { FAIL() << "the driver has ended"; }
    void drop() override { dropped = true; }
    bool dropped = false;
  };
  Task task;
  {
    WakePoller poller;
    Driver driver(poller);
    driver.thread().stop();
    driver.thread().post(task);
  }
  EXPECT_TRUE(task.dropped);
}

TEST(ProgressThread, ACallerThatWaitsGoesOnDriving) {
  WakePoller poller;
  Driver driver(poller);
  std::atomic<bool> ran = false;
  std::thread::id ran_in;
  std::atomic<bool> begun = false;
  std::thread waiter(
      [&] { driver.thread().wait_until([&] { return begun = true, ran.load(); }, kNever); });
  while (!begun) std::this_thread::yield();
  driver.thread().post([&] {
    ran_in = std::this_thread::get_id();
    ran = true;
  });
  driver.thread().drive_once();
  const std::thread::id there = waiter.get_id();
  waiter.join();
  EXPECT_EQ(ran_in, there);
}

TEST(ProgressThread, OneOfSeveralCallersDrivesForAll) {
  WakePoller poller;
  Driver driver(poller);
  int held = 0;
  constexpr int kCallers = 8;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      for (int pass = 0; pass < 200; ++pass) driver.thread().call([&held] { ++held; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  driver.thread().call([&] { EXPECT_EQ(held, kCallers * 200); });
}

// Runs two callers at once until one of them has driven `passes` passes beside the other.
void wait_beside_another(Driver& driver, int passes) {
  std::atomic<bool> over = false;
  std::atomic<bool> begun = false;
  std::thread other([&] {
    driver.thread().wait_until(
        [&] {
          begun = true;
          return over.load();
        },
        kNever);
  });
  while (!begun) std::this_thread::yield();
  int seen = 0;
  driver.thread().wait_until([&] { return ++seen > passes; }, kNever);
  over = true;
  driver.thread().wake();
  other.join();
}

TEST(ProgressThread, ADriverGivesTheCoreAwayAfterEachTurnWhileOthersWait) {
  BusyPoller poller;
  std::atomic<int> yields = 0;
  Driver driver(poller, [&] { ++yields; });
  wait_beside_another(driver, 100);
  EXPECT_GE(yields, 90);
  int passes = 0;
  const int before = yields;
  driver.thread().wait_until([&] { return ++passes > 100; }, kNever);
  EXPECT_EQ(yields, before) << "a lone caller";
}

// Returns how often the progress thread of this process has gone to sleep.
int64_t sleeps_of_progress_thread() {
  int64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream name(task.path() / "comm");
    std::string word;
    if (!(name >> word) || word != "r2ccl") continue;
    std::ifstream status(task.path() / "status");
    while (status >> word) {
      if (word == "voluntary_ctxt_switches:") status >> sleeps;
    }
  }
  return sleeps;
}

TEST(ProgressThread, LooksRarelyWhileCallersWaitAgainAndAgain) {
  BusyPoller poller;
  Driver driver(poller);
  SystemClock clock;
  const auto wait_for = [&](TimeNs time) {
    const TimeNs end = clock.now() + time;
    while (clock.now() < end) {
      driver.thread().wait_until([] { return false; }, 100 * kMicrosecond);
    }
  };
  wait_for(20 * kMillisecond);
  const TimeNs begin = clock.now();
  const int64_t before = sleeps_of_progress_thread();
  wait_for(200 * kMillisecond);
  // A fourth of these, and more on a busy machine: after a pause of this thread, in which it does
  // not wait, the looks begin anew.
  const int64_t most = (clock.now() - begin) / (2 * ProgressThread::kNapMin);
  EXPECT_LE(sleeps_of_progress_thread() - before, most);
}

// The wait comes before kReturnTime: its caller drives.
TEST(ProgressThread, AWakeUpCountsForTheNextTurnWhereNobodyDrives) {
  WakePoller poller;
  Driver driver(poller);
  constexpr TimeNs kBound = 20 * kSecond;
  SystemClock clock;
  const TimeNs begin = clock.now();
  int before = 0;
  driver.thread().call([&] { before = driver.passes + 1; });  // this pass counts after its work
  driver.thread().wake();
  driver.thread().wait_until([&] { return driver.passes > before; }, kBound);
  EXPECT_LT(clock.now() - begin, kBound);
}

TEST(ProgressThread, StoppingEndsAWait) {
  WakePoller poller;
  Driver driver(poller);
  bool held = true;
  std::thread caller([&] { held = driver.thread().wait_until([] { return false; }, kNever); });
  driver.thread().call([] {});
  driver.thread().stop();
  caller.join();
  EXPECT_FALSE(held);
}

TEST(ProgressThread, SurvivesWorkThatThrows) {
  WakePoller poller;
  Driver driver(poller);
  bool ran = false;
  driver.thread().post([] { throw std::runtime_error("first"); });
  driver.thread().post([&ran] { ran = true; });
  std::string error;
  driver.thread().call([&] { error = driver.error; });
  EXPECT_TRUE(ran);
  EXPECT_EQ(error, "first");
}

TEST(ProgressThread, StopsWhileNothingHappens) {
  WakePoller poller;
  Driver driver(poller);
  driver.thread().stop();
  EXPECT_FALSE(driver.thread().running());
}

}  // namespace
}  // namespace r2ccl
