// This dialler finds no listener. The tests of the rendezvous have the other cases.
#include "runtime/connection/sealed_dialer.h"

#include <gtest/gtest.h>

#include "testing/link_surroundings.h"

namespace r2ccl {
namespace {

constexpr TimeNs kPause = 50 * kMillisecond;

class SealedDialerTest : public testing::Test {
 protected:
  static SealedDialer::Options options() {
    SealedDialer::Options options;
    for (const uint16_t port : {uint16_t{1001}, uint16_t{1002}}) {
      Endpoint endpoint;
      endpoint.address.family = AddressFamily::ipv4;
      endpoint.port = port;
      options.endpoints.push_back(endpoint);
    }
    options.pause_min = kPause;
    return options;
  }

  // A failed attempt ends its pass; the next address is due at once.
  void run(TimeNs now) {
    do {
      EXPECT_FALSE(dialer_.progress(now));
    } while (dialer_.next_timeout() <= now && !dialer_.given_up(now));
  }

  NoTransport transport_;
  Reactor reactor_{transport_.poller()};
  SealedDialer dialer_{transport_, reactor_, options(), 0, kSecond};
};

TEST_F(SealedDialerTest, TriesEachAddressOnceARoundWithPausesThatGrow) {
  EXPECT_EQ(dialer_.errors(), "");
  run(0);
  EXPECT_EQ(transport_.connects(), 2);
  EXPECT_EQ(dialer_.next_timeout(), kPause);
  run(kPause - 1);
  EXPECT_EQ(transport_.connects(), 2);
  run(kPause);
  EXPECT_EQ(transport_.connects(), 4);
  EXPECT_EQ(dialer_.next_timeout(), 3 * kPause);
}

TEST_F(SealedDialerTest, GivesUpAtTheDeadlineAndNamesEachAddress) {
  run(0);
  EXPECT_FALSE(dialer_.given_up(kSecond - 1));
  run(kSecond);
  EXPECT_TRUE(dialer_.given_up(kSecond));
  EXPECT_EQ(transport_.connects(), 2);
  for (const char* port : {":1001: ", ":1002: "}) {
    EXPECT_NE(dialer_.errors().find(port), std::string::npos) << dialer_.errors();
  }
}

TEST_F(SealedDialerTest, DialsAgainWithoutAPause) {
  run(0);
  dialer_.dial_again(1);
  run(1);
  EXPECT_EQ(transport_.connects(), 4);
}

TEST_F(SealedDialerTest, DoesNothingOnceItIsClosed) {
  dialer_.close();
  EXPECT_FALSE(dialer_.progress(0));
  dialer_.watch_writes();
  EXPECT_FALSE(dialer_.given_up(2 * kSecond));
  EXPECT_EQ(dialer_.next_timeout(), kNever);
  EXPECT_EQ(transport_.connects(), 0);
}

}  // namespace
}  // namespace r2ccl
