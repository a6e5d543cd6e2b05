#include "protocol/blame.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace r2ccl {
namespace {

constexpr TimeNs kRipe = 300 * kMillisecond;  // later than the judge's patience
constexpr TimeNs kLater = 10 * kSecond;       // later than any echo

NicName nic(uint32_t host, int index = 0) {
  return {host, "nic" + std::to_string(index)};
}

// Rank r runs on host r. `wall` orders reports.
Observation seen(uint32_t observer, uint32_t peer, DownCause cause, int index = 0,
                 TimeNs wall = 100) {
  Observation o;
  o.observer = Rank(static_cast<int32_t>(observer));
  o.peer = Rank(static_cast<int32_t>(peer));
  o.near = nic(observer, index);
  o.far = nic(peer, index);
  o.cause = cause;
  o.wall = wall;
  o.detected_us = 1000;
  o.replayed_bytes = 10;
  o.stall_us = 5;
  return o;
}

Observation told(uint32_t observer, uint32_t peer, DownCause peer_cause, int index = 0) {
  Observation o = seen(observer, peer, DownCause::peer_notice, index);
  o.peer_cause = peer_cause;
  return o;
}

std::vector<Verdict> judge(const std::vector<Observation>& observations) {
  Judge judge;
  for (const Observation& o : observations) judge.observe(o, 0);
  EXPECT_TRUE(judge.due(0).empty()) << "a verdict needs time to hear everybody";
  return judge.due(kRipe);
}

TEST(Judge, NamesTheNicThatItsOwnHostSawGoDown) {
  for (const DownCause cause : {DownCause::interface_down, DownCause::carrier_lost}) {
    const auto verdicts = judge({seen(1, 0, DownCause::silent), seen(0, 1, cause)});
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts[0].culprit, nic(0));
    EXPECT_TRUE(verdicts[0].side_known);
    EXPECT_EQ(verdicts[0].kind, cause);
    EXPECT_EQ(verdicts[0].rank, Rank(0));
  }
}

TEST(Judge, BelievesAPeerThatSaysItsOwnNicWentDown) {
  const auto verdicts = judge({told(1, 0, DownCause::carrier_lost)});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].culprit, nic(0));
  EXPECT_TRUE(verdicts[0].side_known);
  EXPECT_EQ(verdicts[0].kind, DownCause::carrier_lost);
}

TEST(Judge, NamesASilentNicThatSeveralHostsLostTogether) {
  const auto verdicts = judge({seen(1, 0, DownCause::silent), seen(2, 0, DownCause::silent, 0, 90),
                               seen(0, 3, DownCause::silent), told(0, 1, DownCause::silent)});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].culprit, nic(0));
  EXPECT_TRUE(verdicts[0].side_known);
  EXPECT_EQ(verdicts[0].kind, DownCause::silent);
  EXPECT_EQ(verdicts[0].wall, 90);
}

TEST(Judge, SaysThatTheSideIsUnknownWhenOnlyOnePairBroke) {
  const auto verdicts = judge({seen(0, 1, DownCause::silent), told(1, 0, DownCause::silent)});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_FALSE(verdicts[0].side_known);
  const std::set<NicName> both = {verdicts[0].culprit, verdicts[0].other};
  EXPECT_EQ(both, (std::set<NicName>{nic(0), nic(1)}));
  EXPECT_EQ(verdicts[0].kind, DownCause::silent);
  EXPECT_EQ(verdicts[0].rank, Rank(0)) << "who saw it decides, not who was told";
}

TEST(Judge, RanksOfOneHostCountAsOneWitness) {
  // Two ranks of host 1 lose the same NIC of host 0: still one pair of hosts.
  Observation first = seen(1, 0, DownCause::silent);
  Observation second = first;
  second.observer = Rank(7);
  const auto verdicts = judge({first, second});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_FALSE(verdicts[0].side_known);
}

TEST(Judge, TellsTwoFaultsAtOnceApart) {
  const auto verdicts = judge({
      seen(1, 0, DownCause::silent, 0),
      seen(2, 0, DownCause::silent, 0),
      seen(3, 0, DownCause::silent, 0),
      seen(0, 3, DownCause::silent, 1),
      seen(1, 3, DownCause::silent, 1),
  });
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].culprit, nic(0, 0));
  EXPECT_EQ(verdicts[1].culprit, nic(3, 1));
  EXPECT_TRUE(verdicts[0].side_known && verdicts[1].side_known);
}

TEST(Judge, ADirectReportDoesNotHideAnotherFault) {
  const auto verdicts = judge({seen(0, 1, DownCause::carrier_lost, 0),
                               seen(1, 2, DownCause::silent, 1), seen(3, 2, DownCause::silent, 1)});
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].culprit, nic(0, 0));
  EXPECT_EQ(verdicts[1].culprit, nic(2, 1));
}

TEST(Judge, AbsorbsWhatIdlePathsNoticeLater) {
  Judge judge;
  judge.observe(seen(0, 1, DownCause::carrier_lost), 0);
  ASSERT_EQ(judge.due(kRipe).size(), 1u);
  judge.observe(seen(2, 0, DownCause::silent), kRipe + kSecond);
  EXPECT_EQ(judge.next_timeout(), kNever);
  EXPECT_TRUE(judge.due(kLater).empty());
}

TEST(Judge, AbsorbsEchoesAtBothEndsOfAPairWhoseSideIsUnknown) {
  Judge judge;
  judge.observe(seen(0, 1, DownCause::silent), 0);
  ASSERT_EQ(judge.due(kRipe).size(), 1u);
  judge.observe(seen(0, 2, DownCause::silent), kRipe + kMillisecond);
  judge.observe(seen(2, 1, DownCause::silent), kRipe + kMillisecond);
  EXPECT_TRUE(judge.due(2 * kSecond).empty());
}

TEST(Judge, TellsANewFaultOfTheSameNicAfterItsEchoes) {
  Judge judge;
  judge.observe(seen(0, 1, DownCause::carrier_lost), 0);
  ASSERT_EQ(judge.due(kRipe).size(), 1u);
  judge.observe(seen(0, 1, DownCause::carrier_lost), kLater);
  EXPECT_EQ(judge.due(kLater + kRipe).size(), 1u);
}

TEST(Judge, AnotherNicIsNoEcho) {
  Judge judge;
  judge.observe(seen(0, 1, DownCause::carrier_lost, 0), 0);
  ASSERT_EQ(judge.due(kRipe).size(), 1u);
  judge.observe(seen(0, 1, DownCause::carrier_lost, 1), kRipe + kMillisecond);
  EXPECT_EQ(judge.due(2 * kRipe + kSecond).size(), 1u);
}

TEST(Judge, AddsUpTheBytesAndKeepsTheLongestStall) {
  Observation first = seen(1, 0, DownCause::silent, 0, 80);
  first.replayed_bytes = 1000;
  first.stall_us = 7;
  Observation second = seen(2, 0, DownCause::silent, 0, 70);
  second.replayed_bytes = 500;
  second.stall_us = 9;
  second.detected_us = 33;
  const auto verdicts = judge({first, second});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].replayed_bytes, 1500u);
  EXPECT_EQ(verdicts[0].stall_us, 9u);
  EXPECT_EQ(verdicts[0].wall, 70);
  EXPECT_EQ(verdicts[0].detected_us, 33u) << "of the earliest report";
}

TEST(Judge, SaysWhenItWantsToBeAsked) {
  Judge judge;
  EXPECT_EQ(judge.next_timeout(), kNever);
  judge.observe(seen(0, 1, DownCause::silent), 5 * kSecond);
  const TimeNs due = judge.next_timeout();
  EXPECT_GT(due, 5 * kSecond);
  judge.observe(seen(1, 0, DownCause::silent), 5 * kSecond + kMillisecond);
  EXPECT_EQ(judge.next_timeout(), due) << "company must not delay a verdict";
  EXPECT_TRUE(judge.due(due - 1).empty());
  EXPECT_EQ(judge.due(due).size(), 1u);
  EXPECT_EQ(judge.next_timeout(), kNever);
}

TEST(Blame, ObservationsAndVerdictsComeBackAsTheyWereSent) {
  Observation o = told(3, 4, DownCause::stalled, 2);
  o.detected_us = UINT64_MAX;
  o.wall = -1;
  const auto observation = decode_observation(encode(o));
  ASSERT_TRUE(observation.ok());
  EXPECT_EQ(observation.value(), o);

  Verdict v;
  v.number = 9;
  v.culprit = nic(2);
  v.other = nic(3, 1);
  v.rank = Rank(5);
  v.side_known = false;
  v.kind = DownCause::stalled;
  v.detected_us = 1;
  v.replayed_bytes = 2;
  v.stall_us = 3;
  v.wall = 4;
  const auto verdict = decode_verdict(encode(v));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict.value(), v);
}

TEST(Blame, BytesCutShortAreRefused) {
  const auto observation = encode(seen(0, 1, DownCause::silent));
  for (size_t size = 0; size < observation.size(); ++size) {
    EXPECT_FALSE(decode_observation(std::span(observation).first(size)).ok()) << size;
  }
  Verdict v;
  v.culprit = nic(1);
  const auto verdict = encode(v);
  for (size_t size = 0; size < verdict.size(); ++size) {
    EXPECT_FALSE(decode_verdict(std::span(verdict).first(size)).ok()) << size;
  }
}

TEST(Blame, ACauseOfALaterVersionReadsAsNone) {
  auto bytes = encode(seen(0, 1, DownCause::silent));
  // Two ranks, two names of host, length and "nic0": the cause follows.
  constexpr size_t kCauseAt = 4 + 4 + 2 * (4 + 1 + 4);
  ASSERT_EQ(bytes[kCauseAt], static_cast<std::byte>(DownCause::silent));
  bytes[kCauseAt] = std::byte{99};
  const auto decoded = decode_observation(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().cause, DownCause::none);
}

TEST(Blame, SurvivesGarbageAndWhateverItMeans) {
  std::mt19937_64 random(1);
  Judge judge;
  TimeNs now = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = encode(seen(random() % 4, random() % 4, DownCause::silent));
    if (random() % 4 == 0) bytes.resize(random() % 100);
    for (uint64_t k = random() % 6; k > 0 && !bytes.empty(); --k) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    (void)decode_verdict(bytes);
    const auto observation = decode_observation(bytes);
    if (!observation.ok()) continue;
    EXPECT_EQ(decode_observation(encode(observation.value())).value(), observation.value());
    now += static_cast<TimeNs>(random() % static_cast<uint64_t>(10 * kMillisecond));
    judge.observe(observation.value(), now);
    (void)judge.due(now);
  }
}

}  // namespace
}  // namespace r2ccl
