#include "transport/tcp/nic_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "testing/new_network.h"
#include "transport/tcp/tcp_poller.h"

namespace r2ccl {
namespace {

// A kernel whose answers the test decides. Answers after the first one wait for it.
class Kernel {
 public:
  Result<std::vector<Nic>> read() {
    std::unique_lock lock(mutex_);
    if (reads_++ > 0) changed_.wait(lock, [this] { return answers_ > 0; });
    if (reads_ > 1) --answers_;
    changed_.notify_all();
    if (fails_) return Status(Code::system, "no answer");
    Nic nic;
    nic.name = "nic0";
    nic.index = 2;
    nic.mtu = mtu_;
    return std::vector{nic};
  }
  // Lets one read end, and waits for it.
  void answer(uint32_t mtu, bool fails = false) {
    std::unique_lock lock(mutex_);
    mtu_ = mtu;
    fails_ = fails;
    ++answers_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return answers_ == 0; });
  }
  void answer_always() {
    const std::lock_guard lock(mutex_);
    answers_ = INT32_MAX;
    changed_.notify_all();
  }
  void wait_for_reads(int reads) {
    std::unique_lock lock(mutex_);
    while (reads_ < reads) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t mtu_ = 1500;
  bool fails_ = false;
  int answers_ = 0;
  int reads_ = 0;
};

class NicWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto watch = NicWatch::open([this] { return kernel_.read(); });
    ASSERT_TRUE(watch.ok()) << watch.status().message();
    watch_ = std::move(watch).value();
    auto poller = TcpPoller::open();
    ASSERT_TRUE(poller.ok());
    poller_ = std::move(poller).value();
    ASSERT_TRUE(poller_->add(watch_->fd(), 1, false).ok());
  }
  void TearDown() override {
    kernel_.answer_always();
    watch_.reset();
  }

  uint32_t mtu() {
    const auto nics = watch_->nics();
    return nics.ok() ? nics.value().at(0).mtu : 0;
  }
  bool tells() {
    std::array<PollEvent, 1> ready;
    return poller_->wait(ready, 60 * kSecond) == 1 && watch_->drain();
  }

  Kernel kernel_;
  std::unique_ptr<NicWatch> watch_;
  std::unique_ptr<TcpPoller> poller_;
};

TEST_F(NicWatchTest, GivesTheLastAnswerWhileTheKernelKeepsTheNextOneBack) {
  EXPECT_EQ(mtu(), 1500U);
  EXPECT_EQ(mtu(), 1500U);  // asks again
  kernel_.wait_for_reads(2);
  EXPECT_EQ(mtu(), 1500U);
  kernel_.answer(9000);
  EXPECT_TRUE(tells());
  EXPECT_EQ(mtu(), 9000U);
  EXPECT_FALSE(watch_->drain());
}

TEST_F(NicWatchTest, TellsOfADifferenceAlone) {
  EXPECT_EQ(mtu(), 1500U);
  EXPECT_EQ(mtu(), 1500U);
  kernel_.answer(1500);
  EXPECT_EQ(mtu(), 1500U);
  kernel_.wait_for_reads(3);  // so the thread has handled the one before
  EXPECT_FALSE(watch_->drain());
}

TEST_F(NicWatchTest, KeepsTheLastAnswerWhenAReadFailsAndReadsAgain) {
  EXPECT_EQ(mtu(), 1500U);
  EXPECT_EQ(mtu(), 1500U);
  kernel_.answer(1500, true);
  kernel_.wait_for_reads(3);
  EXPECT_EQ(mtu(), 1500U);
  EXPECT_FALSE(watch_->drain());
  kernel_.answer(9000);
  EXPECT_TRUE(tells());
  EXPECT_EQ(mtu(), 9000U);
}

// The read that follows does not end: the notice alone has the state. A read that began before has
// the state of then, and does not count.
TEST(NicWatch, KnowsAPulledCableBeforeTheKernelAnswersARead) {
  if (!has_iproute2()) GTEST_SKIP() << "needs iproute2";
  const bool entered = in_new_network([] {
    ASSERT_EQ(ip("link add nic0 type veth peer name nic1"), 0);
    ASSERT_EQ(ip("link set nic0 up"), 0);
    ASSERT_EQ(ip("link set nic1 up"), 0);
    const auto carrier_in = [](const Result<std::vector<Nic>>& nics) {
      for (const Nic& nic : nics.value()) {
        if (nic.name == "nic0") return nic.carrier;
      }
      return false;
    };
    while (!carrier_in(read_nics())) std::this_thread::yield();
    std::mutex lock;
    std::atomic<int> reads = 0;
    auto watch = NicWatch::open([&] {
      auto nics = read_nics();
      if (reads++ > 0) const std::lock_guard wait(lock);
      return nics;
    });
    ASSERT_TRUE(watch.ok());
    ASSERT_TRUE(carrier_in(watch.value()->nics()));
    auto poller = TcpPoller::open();
    ASSERT_TRUE(poller.ok() && poller.value()->add(watch.value()->fd(), 1, false).ok());
    std::unique_lock held(lock);
    ASSERT_TRUE(carrier_in(watch.value()->nics()));  // asks again
    while (reads < 2) std::this_thread::yield();
    ASSERT_EQ(ip("link set nic1 down"), 0);
    while (carrier_in(watch.value()->nics())) {
      std::array<PollEvent, 1> ready;
      ASSERT_EQ(poller.value()->wait(ready, 60 * kSecond), 1U);
      watch.value()->drain();
    }
    held.unlock();
    while (reads < 4) EXPECT_FALSE(carrier_in(watch.value()->nics()));
  });
  if (!entered) GTEST_SKIP() << "may not make a network namespace";
}

}  // namespace
}  // namespace r2ccl
