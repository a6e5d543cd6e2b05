#include "runtime/bootstrap/resolver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace r2ccl {
namespace {

const SystemClock kClock;

ResolveAttempt unknown_yet() {
  ResolveAttempt attempt;
  attempt.error = Status(Code::system, "no such name");
  attempt.may_change = true;
  return attempt;
}

ResolveAttempt known() {
  ResolveAttempt attempt;
  attempt.endpoints.push_back({*parse_address("10.0.0.7"), 80});
  return attempt;
}

TEST(Resolve, GivesTheAddressItselfForAnAddress) {
  for (const auto& [host, text] :
       {std::pair("127.0.0.1", "127.0.0.1:80"), std::pair("::1", "[::1]:80")}) {
    const auto found = resolve({host, 80}, AddressFamily::none, 20 * kSecond, kClock);
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_EQ(found.value().size(), 1u);
    EXPECT_EQ(to_string(found.value()[0]), text);
  }
}

TEST(Resolve, AsksAgainForANameThatIsNotThereYet) {
  std::atomic<int> asked{0};
  const auto found = resolve(
      {"pod-0", 80}, AddressFamily::none, 60 * kSecond, kClock,
      [&](const HostPort&, AddressFamily) { return ++asked < 4 ? unknown_yet() : known(); });
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(to_string(found.value()[0]), "10.0.0.7:80");
  EXPECT_EQ(asked, 4);
}

TEST(Resolve, SaysWhichNameItDoesNotKnowAndHowLongItAsked) {
  const TimeNs begin = kClock.now();
  const auto found = resolve({"no..such..host", 80}, AddressFamily::none, 300 * kMillisecond,
                             kClock, [](const HostPort&, AddressFamily) { return unknown_yet(); });
  EXPECT_GE(kClock.now() - begin, 300 * kMillisecond);
  EXPECT_EQ(found.status().code(), Code::timeout);
  EXPECT_EQ(found.status().message().rfind(
                "cannot resolve the host name \"no..such..host\" within 300 ms: no such name", 0),
            0U)
      << found.status().message();
}

TEST(Resolve, EndsAtOnceWithAnErrorThatDoesNotChange) {
  int asked = 0;
  const auto found = resolve({"h", 80}, AddressFamily::none, 600 * kSecond, kClock,
                             [&](const HostPort&, AddressFamily) {
                               ++asked;
                               ResolveAttempt attempt;
                               attempt.error = Status(Code::system, "out of memory");
                               return attempt;
                             });
  EXPECT_EQ(found.status().message(), "cannot resolve the host name \"h\": out of memory");
  EXPECT_EQ(asked, 1);
}

TEST(Resolve, KeepsTheBoundWhenTheResolverBlocks) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
    bool passed = false;
  };
  const auto gate = std::make_shared<Gate>();
  const auto found = resolve({"h", 80}, AddressFamily::none, 200 * kMillisecond, kClock,
                             [gate](const HostPort&, AddressFamily) {
                               std::unique_lock lock(gate->mutex);
                               gate->opened.wait(lock, [&] { return gate->open; });
                               gate->passed = true;
                               gate->opened.notify_all();
                               return known();
                             });
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().message().find("the resolver does not answer"), std::string::npos);
  // The asking thread ends on its own.
  std::unique_lock lock(gate->mutex);
  EXPECT_FALSE(gate->passed);
  gate->open = true;
  gate->opened.notify_all();
  gate->opened.wait(lock, [&] { return gate->passed; });
}

}  // namespace
}  // namespace r2ccl
