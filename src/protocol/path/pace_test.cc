#include "protocol/path/pace.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 1000 * kSecond;
constexpr TimeNs kRoundTrip = 100 * kMicrosecond;

// Lets `senders` share an arrival rate of `bytes_per_ns` for `duration`; returns the time at the
// end.
TimeNs receive(NicPace& pace, const std::vector<size_t>& senders, double bytes_per_ns,
               TimeNs duration, TimeNs from = kStart) {
  TimeNs now = from;
  for (size_t turn = 0; now < from + duration; ++turn) {
    now += kMillisecond;
    pace.on_received(senders[turn % senders.size()],
                     static_cast<uint64_t>(bytes_per_ns * static_cast<double>(kMillisecond)), now);
  }
  return now;
}

TEST(NicPace, GivesALoneSenderAFullWindowBeforeAnyRateIsKnown) {
  NicPace pace(1);
  const size_t sender = pace.add_sender();
  EXPECT_EQ(pace.share(sender, kRoundTrip, kStart), limits::kPaceWindowMin);
}

TEST(NicPace, TheWindowIsTwiceTheNeedOfTheMeasuredRate) {
  NicPace pace(1);
  const size_t sender = pace.add_sender();
  const TimeNs now = receive(pace, {sender}, 1.25, 200 * kMillisecond);  // 10 Gbit/s
  // 2 * 1.25 B/ns * (4 ms + 0.1 ms) = 10.25 MB
  EXPECT_NEAR(static_cast<double>(pace.share(sender, kRoundTrip, now)), 10.25e6, 0.5e6);
}

TEST(NicPace, SendersThatAreActiveShareTheWindow) {
  NicPace pace(1);
  std::vector<size_t> senders;
  for (int i = 0; i < 7; ++i) senders.push_back(pace.add_sender());
  const size_t idle = pace.add_sender();
  const TimeNs now = receive(pace, senders, 1.25, 200 * kMillisecond);
  const uint64_t one = pace.share(senders[0], kRoundTrip, now);
  EXPECT_NEAR(static_cast<double>(one), 10.25e6 / 7, 0.1e6);
  // A sender that begins now gets a share at once, as if it were active.
  EXPECT_NEAR(static_cast<double>(pace.share(idle, kRoundTrip, now)), 10.25e6 / 8, 0.1e6);
}

TEST(NicPace, ASenderThatStoppedNoLongerCounts) {
  NicPace pace(1);
  const std::vector<size_t> both = {pace.add_sender(), pace.add_sender()};
  TimeNs now = receive(pace, both, 1.25, 200 * kMillisecond);
  const uint64_t half = pace.share(both[0], kRoundTrip, now);
  now = receive(pace, {both[0]}, 1.25, 50 * kMillisecond, now);
  EXPECT_NEAR(static_cast<double>(pace.share(both[0], kRoundTrip, now)),
              2.0 * static_cast<double>(half), 0.1 * static_cast<double>(half));
}

TEST(NicPace, RanksOfOneHostShareTheirNic) {
  NicPace alone(1);
  NicPace shared(4);
  const TimeNs now = receive(alone, {alone.add_sender()}, 1.25, 200 * kMillisecond);
  receive(shared, {shared.add_sender()}, 1.25, 200 * kMillisecond);
  EXPECT_EQ(shared.share(0, kRoundTrip, now), alone.share(0, kRoundTrip, now) / 4);
  NicPace none(0);  // counts as one
  none.add_sender();
  EXPECT_EQ(none.share(0, kRoundTrip, now), limits::kPaceWindowMin);
}

TEST(NicPace, StarvesNoSenderHoweverManyThereAre) {
  NicPace pace(8);
  std::vector<size_t> senders;
  for (int i = 0; i < 200; ++i) senders.push_back(pace.add_sender());
  for (const size_t sender : senders) pace.on_received(sender, 1, kStart);
  EXPECT_EQ(pace.share(senders[0], kRoundTrip, kStart), limits::kPaceShareMin);
}

TEST(NicPace, RemembersItsRateThroughAPause) {
  NicPace pace(1);
  const size_t sender = pace.add_sender();
  TimeNs now = receive(pace, {sender}, 1.25, 200 * kMillisecond);
  const uint64_t before = pace.share(sender, kRoundTrip, now);
  now += 10 * kSecond;
  pace.on_received(sender, 1000, now);
  EXPECT_GT(pace.share(sender, kRoundTrip, now), before * 9 / 10);
}

}  // namespace
}  // namespace r2ccl
