#include "runtime/collective/request_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace r2ccl {
namespace {

// Looks at what is waited for only when it is woken, as a driver where nothing happens.
class SleepyDriver final : public RequestDriver {
 public:
  bool wait_until(const std::function<bool()>& done, TimeNs timeout) override {
    const SystemClock clock;
    const TimeNs end = timeout == kNever ? kNever : clock.now() + timeout;
    waiting = true;
    while (clock.now() < end) {
      if (woken.exchange(false) && done()) return true;
      std::this_thread::yield();
    }
    return false;
  }
  bool stopped() override { return false; }
  void wake() override { woken = true; }

  std::atomic<bool> waiting{false};
  std::atomic<bool> woken{false};
};

struct Fixture {
  std::shared_ptr<SleepyDriver> driver = std::make_shared<SleepyDriver>();
  std::shared_ptr<AwaitedRequests> communicator = std::make_shared<AwaitedRequests>(driver);

  std::shared_ptr<Request> request() {
    return std::make_shared<Request>(PendingCall(), communicator);
  }
};

constexpr TimeNs kFar = 30 * kSecond;

TEST(RequestSet, AWaitForAnyIsWokenByAnotherDriver) {
  Fixture driven;
  Fixture other;
  const std::vector<std::shared_ptr<Request>> requests = {nullptr, driven.request(),
                                                          other.request()};
  std::thread completing([&] {
    while (!driven.driver->waiting) std::this_thread::yield();
    requests[2]->complete(Status());
  });
  const SystemClock clock;
  const TimeNs begin = clock.now();
  EXPECT_EQ(wait_any(requests, kFar), 2U);
  EXPECT_LT(clock.now() - begin, kFar);
  completing.join();
}

TEST(RequestSet, AWaitForAnyIsToldOfNothingAfterItsEnd) {
  Fixture driven;
  Fixture other;
  const std::vector<std::shared_ptr<Request>> requests = {driven.request(), other.request()};
  EXPECT_EQ(wait_any(requests, 1 * kMillisecond), std::nullopt);
  requests[1]->complete(Status());  // a listener that is left would be gone memory
  EXPECT_FALSE(driven.driver->woken);
  EXPECT_EQ(wait_any(requests, 1 * kMillisecond), 1U);
}

TEST(RequestSet, FindsTheLowestOfAState) {
  Fixture all;
  const std::vector<std::shared_ptr<Request>> requests = {nullptr, all.request(), all.request(),
                                                          all.request()};
  EXPECT_EQ(find_request(requests, true), std::nullopt);
  EXPECT_EQ(find_request(requests, false), 1U);
  requests[3]->complete(Status());
  requests[1]->complete(Status());
  EXPECT_EQ(find_request(requests, true), 1U);
  EXPECT_EQ(find_request(requests, false), 2U);
  EXPECT_EQ(wait_any(requests, 0), 1U);
  EXPECT_FALSE(wait_all(requests, 0));
  requests[2]->complete(Status());
  EXPECT_TRUE(wait_all(requests, 0));
}

// A wait must not fail while its operation goes on, so the set takes no memory.
TEST(RequestSet, ARequestThatSeveralThreadsWaitForIsAwaitedUntilTheLastOneLeaves) {
  Fixture fixture;
  const auto first = fixture.request();
  const auto second = fixture.request();
  const auto awaited = [&] {
    std::vector<Request*> found;
    fixture.communicator->for_each([&](Request& each) { found.push_back(&each); });
    return found;
  };
  first->begin_long_wait(kFar);
  second->begin_long_wait(kFar);
  first->begin_long_wait(kFar);
  EXPECT_EQ(awaited().size(), 2U);
  first->end_long_wait();
  EXPECT_EQ(awaited().size(), 2U);
  first->end_long_wait();
  EXPECT_EQ(awaited(), std::vector<Request*>{second.get()});
  second->end_long_wait();
  EXPECT_TRUE(awaited().empty());
}

}  // namespace
}  // namespace r2ccl
