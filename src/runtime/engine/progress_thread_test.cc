#include "runtime/engine/progress_thread.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

namespace r2ccl {
namespace {

// A poller without descriptors: only wake() ends a wait.
class WakePoller final : public Poller {
 public:
  Status add(int, uint64_t, bool) override { return {}; }
  void modify(int, uint64_t, bool) override {}
  void remove(int) override {}
  size_t wait(std::span<PollEvent>, TimeNs) override {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [this] { return wakes_ > 0; });
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

class Driver final : public ProgressDriver {
 public:
  explicit Driver(Poller& poller) : poller_(poller), thread_(poller, *this, Rank(0)) {
    thread_.start();
  }
  ~Driver() override { thread_.stop(); }
  ProgressThread& thread() { return thread_; }
  // The thread's own, as all that a rank does.
  int turns = 0;
  std::string error;

 private:
  void turn() override {
    poller_.wait({}, kNever);
    thread_.run_posted();
    ++turns;
  }
  void on_exception(const std::exception& thrown) override { error = thrown.what(); }

  Poller& poller_;
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
