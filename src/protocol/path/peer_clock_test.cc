#include "protocol/path/peer_clock.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 100 * kSecond;
constexpr TimeNs kQuick = 20 * kMicrosecond;  // the quickest way back

// A peer whose clock shows `ahead` more than this host's.
struct Peer {
  TimeNs ahead = 0;
  uint64_t at(TimeNs time) const { return static_cast<uint64_t>(time + ahead); }
};

TEST(PeerClock, ATimeIsKnownForAsLongAsTheQuickestMessageWouldHaveBeenHere) {
  for (const TimeNs ahead : {TimeNs{0}, 3 * kSecond, -kStart - 50 * kSecond}) {
    const Peer peer{ahead};
    PeerClock clock;
    clock.on_message(peer.at(kStart), kStart + kQuick);
    // Later ones take a slow way, and say when a frame arrived.
    for (int i = 1; i < 100; ++i) {
      const TimeNs sent_at = kStart + i * kMillisecond;
      const TimeNs now = sent_at + i * 10 * kMicrosecond + kQuick;
      clock.on_message(peer.at(sent_at), now);
      const FrameArrival arrival =
          clock.read(peer.at(sent_at - 300 * kMicrosecond), peer.at(sent_at), now);
      EXPECT_EQ(arrival.known_for, 300 * kMicrosecond + i * 10 * kMicrosecond);
      EXPECT_EQ(arrival.told_for, i * 10 * kMicrosecond);
      EXPECT_EQ(arrival.at, sent_at - 300 * kMicrosecond + ahead);
    }
  }
}

TEST(PeerClock, AQuickMessageIsForgottenBecauseClocksDrift) {
  const Peer peer{kSecond};
  PeerClock clock;
  clock.on_message(peer.at(kStart), kStart + kQuick);
  TimeNs now = kStart;
  const auto known_for = [&] {
    now += 10 * kMillisecond;
    clock.on_message(peer.at(now - kMillisecond), now);
    return clock.read(peer.at(now - kMillisecond), peer.at(now - kMillisecond), now).known_for;
  };
  EXPECT_EQ(known_for(), kMillisecond - kQuick);
  for (int i = 0; i < 30; ++i) known_for();
  EXPECT_EQ(known_for(), kMillisecond - kQuick) << "the period before counts";
  for (int i = 0; i < 30; ++i) known_for();
  EXPECT_EQ(known_for(), 0);
  now += kSecond;
  EXPECT_EQ(known_for(), 0) << "after a pause only new messages count";
}

TEST(PeerClock, NoTimesOfAPeerOverflow) {
  constexpr uint64_t kTimes[] = {0, 1, INT64_MAX, uint64_t{1} << 63, UINT64_MAX - 1, UINT64_MAX};
  for (const uint64_t sent_at : kTimes) {
    for (const uint64_t arrived_at : kTimes) {
      PeerClock clock;
      clock.on_message(sent_at, kStart);
      const FrameArrival arrival = clock.read(arrived_at, sent_at, kStart);
      EXPECT_GE(arrival.known_for, 0);
      EXPECT_LE(arrival.known_for, kStart);
      EXPECT_GE(arrival.told_for, 0);
      EXPECT_LE(arrival.told_for, kStart);
      EXPECT_LE(arrival.at, kNever / 8);
      EXPECT_GE(arrival.at, -(kNever / 8));
    }
  }
}

}  // namespace
}  // namespace r2ccl
