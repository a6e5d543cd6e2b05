#include "protocol/diagnosis/fault_localiser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "testing/fault_localiser_evidence.h"

namespace r2ccl {
namespace {

constexpr TimeNs kRipe = 300 * kMillisecond;  // later than the probe timeout
constexpr TimeNs kLater = 10 * kSecond;       // later than any late report

std::vector<Verdict> localise(const std::vector<Observation>& observations, TimeNs at = kRipe) {
  FaultLocaliser localiser(hosts(4));
  for (const Observation& o : observations) localiser.observe(o, 0);
  EXPECT_TRUE(localiser.due(0).empty()) << "a verdict needs time to hear everybody";
  return localiser.due(at);
}

TEST(FaultLocaliser, NamesTheNicThatItsOwnHostSawGoDown) {
  for (const DownCause cause : {DownCause::interface_down, DownCause::carrier_lost}) {
    const auto verdicts = localise({seen(1, 0, DownCause::silent), seen(0, 1, cause)});
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts[0].faulty, nic(0));
    EXPECT_EQ(verdicts[0].scope, Scope::nic);
    EXPECT_EQ(verdicts[0].kind, cause);
    EXPECT_EQ(verdicts[0].rank, Rank(0));
  }
}

TEST(FaultLocaliser, BelievesAPeerThatSaysItsOwnNicWentDown) {
  const auto verdicts = localise({told(1, 0, DownCause::carrier_lost)});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].faulty, nic(0));
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[0].kind, DownCause::carrier_lost);
}

TEST(FaultLocaliser, NamesASilentNicThatSeveralHostsLostTogether) {
  const auto verdicts =
      localise({seen(1, 0, DownCause::silent), seen(2, 0, DownCause::silent, 0, 90),
                seen(0, 3, DownCause::silent), told(0, 1, DownCause::silent)});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].faulty, nic(0));
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[0].kind, DownCause::silent);
  EXPECT_EQ(verdicts[0].wall, 90);
}

TEST(FaultLocaliser, SaysThatTheSideIsUnknownWhenOnlyOnePairBroke) {
  const auto verdicts = localise({seen(0, 1, DownCause::silent), told(1, 0, DownCause::silent)});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::pair);
  const std::set<NicName> both = {verdicts[0].faulty, verdicts[0].other};
  EXPECT_EQ(both, (std::set<NicName>{nic(0), nic(1)}));
  EXPECT_EQ(verdicts[0].kind, DownCause::silent);
  EXPECT_EQ(verdicts[0].rank, Rank(0)) << "the observer decides, not the rank that was told";
}

// A chain of lost pairs, 2-0-1-3, is host 0's NIC and one pair, or host 1's and one pair. A ring is
// the NICs of hosts 0 and 1, or those of 2 and 3.
TEST(FaultLocaliser, NamesNoNicWithoutMoreEvidenceThanAgainstItsWitnesses) {
  const std::vector<Observation> chain = {seen(0, 2, DownCause::stalled),
                                          seen(0, 1, DownCause::stalled),
                                          seen(1, 3, DownCause::stalled)};
  const std::vector<Observation> ring = {
      seen(0, 2, DownCause::stalled), seen(1, 2, DownCause::stalled),
      seen(1, 3, DownCause::stalled), seen(0, 3, DownCause::stalled)};
  for (const std::vector<Observation>& lost : {chain, ring}) {
    std::vector<size_t> order(lost.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      std::vector<Observation> told_so;
      for (const size_t index : order) told_so.push_back(lost[index]);
      const auto verdicts = localise(told_so, kLater);
      EXPECT_GE(verdicts.size(), 2u);
      for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::pair);
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST(FaultLocaliser, NamesTwoNicsOfARailThatOthersStillTellApart) {
  const auto verdicts = localise(
      {
          seen(0, 1, DownCause::stalled),
          seen(0, 2, DownCause::stalled),
          seen(0, 3, DownCause::stalled),
          seen(1, 2, DownCause::stalled),
          seen(1, 3, DownCause::stalled),
      },
      kLater);
  ASSERT_EQ(verdicts.size(), 2u);
  const std::set<NicName> named = {verdicts[0].faulty, verdicts[1].faulty};
  EXPECT_EQ(named, (std::set<NicName>{nic(0), nic(1)}));
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::nic);
}

TEST(FaultLocaliser, RanksOfOneHostCountAsOneWitness) {
  // Two ranks of host 1 lose the same NIC of host 0: still one pair of hosts.
  Observation first = seen(1, 0, DownCause::silent);
  Observation second = first;
  second.observer = Rank(7);
  const auto verdicts = localise({first, second});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::pair);
}

TEST(FaultLocaliser, SeparatesTwoFaultsAtOnce) {
  const auto verdicts = localise({
      seen(1, 0, DownCause::silent, 0),
      seen(2, 0, DownCause::silent, 0),
      seen(3, 0, DownCause::silent, 0),
      seen(0, 3, DownCause::silent, 1),
      seen(1, 3, DownCause::silent, 1),
  });
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].faulty, nic(0, 0));
  EXPECT_EQ(verdicts[1].faulty, nic(3, 1));
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[1].scope, Scope::nic);
}

TEST(FaultLocaliser, ADirectReportDoesNotHideAnotherFault) {
  const auto verdicts =
      localise({seen(0, 1, DownCause::carrier_lost, 0), seen(1, 2, DownCause::silent, 1),
                seen(3, 2, DownCause::silent, 1)});
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].faulty, nic(0, 0));
  EXPECT_EQ(verdicts[1].faulty, nic(2, 1));
}

TEST(FaultLocaliser, AbsorbsTheLateReportsOfIdlePaths) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 1, DownCause::carrier_lost), 0);
  ASSERT_EQ(localiser.due(kRipe).size(), 1u);
  localiser.observe(seen(2, 0, DownCause::silent), kRipe + kSecond);
  EXPECT_EQ(localiser.next_timeout(), kNever);
  EXPECT_TRUE(localiser.due(kLater).empty());
}

TEST(FaultLocaliser, AbsorbsLateReportsAtBothEndsOfAPairWhoseSideIsUnknown) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 1, DownCause::silent), 0);
  ASSERT_EQ(localiser.due(kRipe).size(), 1u);
  localiser.observe(seen(0, 2, DownCause::silent), kRipe + kMillisecond);
  localiser.observe(seen(2, 1, DownCause::silent), kRipe + kMillisecond);
  EXPECT_TRUE(localiser.due(2 * kSecond).empty());
}

// A later loss towards a second host tells the side. The verdicts have one time: one replaces the
// other.
TEST(FaultLocaliser, NamesTheNicOfAPairWhenASecondHostLosesItLater) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 1, DownCause::stalled, 0, 100), 0);
  const auto first = localiser.due(kRipe);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].scope, Scope::pair);
  localiser.observe(seen(0, 2, DownCause::stalled, 0, 900), kSecond);
  const auto second = localiser.due(kSecond + kRipe);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].scope, Scope::nic);
  EXPECT_EQ(second[0].faulty, nic(0));
  EXPECT_EQ(second[0].wall, first[0].wall);
  localiser.observe(seen(0, 3, DownCause::stalled), 2 * kSecond);
  EXPECT_TRUE(localiser.due(2 * kSecond + kRipe).empty()) << "named already";
}

TEST(FaultLocaliser, ReportsANewFaultOfTheSameNicAfterTheLateReports) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 1, DownCause::carrier_lost), 0);
  ASSERT_EQ(localiser.due(kRipe).size(), 1u);
  localiser.observe(seen(0, 1, DownCause::carrier_lost), kLater);
  EXPECT_EQ(localiser.due(kLater + kRipe).size(), 1u);
}

TEST(FaultLocaliser, ALossOfAnotherNicIsNoLateReport) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 1, DownCause::carrier_lost, 0), 0);
  ASSERT_EQ(localiser.due(kRipe).size(), 1u);
  localiser.observe(seen(0, 1, DownCause::carrier_lost, 1), kRipe + kMillisecond);
  EXPECT_EQ(localiser.due(2 * kRipe + kSecond).size(), 1u);
}

TEST(FaultLocaliser, ADirectReportIsNoLateReportOfAPairWhoseSideWasUnknown) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 1, DownCause::silent), 0);
  ASSERT_EQ(localiser.due(kRipe).size(), 1u);
  localiser.observe(seen(1, 0, DownCause::carrier_lost), kRipe + kSecond);
  const auto verdicts = localiser.due(2 * kRipe + kSecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[0].faulty, nic(1));
  EXPECT_EQ(verdicts[0].kind, DownCause::carrier_lost);
}

TEST(FaultLocaliser, ADirectReportIsNoLateReportOfItsPeersFault) {
  // At once, and within the late-report window of the first one.
  for (const TimeNs later : {TimeNs{0}, kRipe + kSecond}) {
    FaultLocaliser localiser(hosts(4));
    localiser.observe(seen(0, 1, DownCause::carrier_lost), 0);
    auto verdicts = localiser.due(later);
    localiser.observe(seen(1, 0, DownCause::carrier_lost), later);
    for (const Verdict& verdict : localiser.due(later + kRipe)) verdicts.push_back(verdict);
    ASSERT_EQ(verdicts.size(), 2u);
    EXPECT_EQ(verdicts[0].faulty, nic(0));
    EXPECT_EQ(verdicts[1].faulty, nic(1));
  }
}

// The localiser reports each fault when its own time is over, with all observations of it until
// then.
TEST(FaultLocaliser, ReportsEachFaultInItsOwnTime) {
  constexpr TimeNs kProbeTimeout = 250 * kMillisecond;
  constexpr TimeNs kProbeTimeoutDirect = 60 * kMillisecond;
  constexpr TimeNs kSecondAt = 50 * kMillisecond;
  struct Case {
    const char* name;
    std::vector<Observation> first;
    std::vector<Observation> second;
    NicName faulty_nics[2];
  };
  const auto silent = DownCause::silent;
  const Case cases[] = {
      {"other NICs",
       {seen(1, 0, silent), seen(2, 0, silent)},
       {seen(1, 3, silent, 1), seen(2, 3, silent, 1)},
       {nic(0), nic(3, 1)}},
      {"the same rail",
       {seen(1, 0, silent), seen(2, 0, silent), seen(3, 0, silent)},
       {seen(1, 3, silent), seen(2, 3, silent)},
       {nic(0), nic(3)}},
      {"direct ones",
       {seen(0, 1, DownCause::carrier_lost)},
       {seen(3, 1, DownCause::interface_down)},
       {nic(0), nic(3)}},
  };
  for (const Case& c : cases) {
    FaultLocaliser localiser(hosts(5));
    for (const Observation& o : c.first) localiser.observe(o, 0);
    for (const Observation& o : c.second) localiser.observe(o, kSecondAt);
    (void)localiser.wanted(kSecondAt + 10 * kMillisecond);
    const bool direct = c.first[0].cause == DownCause::carrier_lost;
    const TimeNs timeout = direct ? kProbeTimeoutDirect : kProbeTimeout;
    EXPECT_EQ(localiser.next_timeout(), timeout) << c.name;
    const auto first = localiser.due(timeout);
    ASSERT_EQ(first.size(), 1u) << c.name;
    EXPECT_EQ(first[0].faulty, c.faulty_nics[0]) << c.name;
    EXPECT_EQ(localiser.next_timeout(), kSecondAt + timeout) << c.name;
    const auto second = localiser.due(kSecondAt + timeout);
    ASSERT_EQ(second.size(), 1u) << c.name;
    EXPECT_EQ(second[0].faulty, c.faulty_nics[1]) << c.name;
    EXPECT_EQ(second[0].retransmitted_bytes, 10 * c.second.size()) << c.name;
    EXPECT_EQ(localiser.next_timeout(), kNever) << c.name;
  }
}

// Returns all pairs of the hosts' NICs `index`, each seen from one end.
std::vector<Observation> all_pairs(uint32_t hosts, DownCause cause, int index = 0) {
  std::vector<Observation> all;
  for (uint32_t a = 0; a < hosts; ++a) {
    for (uint32_t b = a + 1; b < hosts; ++b) all.push_back(seen(a, b, cause, index));
  }
  return all;
}

TEST(FaultLocaliser, NamesTheRailWhenTheNicsOfAllHostsLostEachOther) {
  FaultLocaliser localiser(hosts(4));
  for (const Observation& o : all_pairs(4, DownCause::silent, 2)) localiser.observe(o, 0);
  const auto verdicts = localiser.due(kRipe);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::rail);
  EXPECT_EQ(verdicts[0].faulty, nic(0, 2));
  EXPECT_EQ(verdicts[0].kind, DownCause::silent);
  EXPECT_EQ(verdicts[0].retransmitted_bytes, 60u);
  localiser.observe(told(3, 2, DownCause::silent, 2), kRipe + kSecond);
  localiser.observe(seen(3, 2, DownCause::carrier_lost, 2), kRipe + kSecond);
  EXPECT_EQ(localiser.next_timeout(), kNever) << "echoes";
}

TEST(FaultLocaliser, NamesTheRailWhenAllHostsLostTheirCarrier) {
  std::vector<Observation> all;
  for (uint32_t host = 0; host < 4; ++host) {
    all.push_back(seen(host, (host + 1) % 4, DownCause::carrier_lost));
  }
  const auto verdicts = localise(all);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::rail);
  EXPECT_EQ(verdicts[0].kind, DownCause::carrier_lost);
}

// Paths with traffic fail at once, here between neighbours; the others notice at a heartbeat.
std::vector<Observation> ring() {
  return {seen(0, 1, DownCause::silent), seen(1, 2, DownCause::silent),
          seen(2, 3, DownCause::silent), seen(3, 0, DownCause::silent)};
}

TEST(FaultLocaliser, WaitsForIdlePathsToTellARailFromTwoNics) {
  struct Case {
    const char* name;
    std::vector<Observation> later;
    std::vector<NicName> faulty_nics;
    Scope scope;
  };
  const Case cases[] = {
      {"rail",
       {seen(0, 2, DownCause::silent), seen(3, 1, DownCause::silent)},
       {nic(0)},
       Scope::rail},
      {"two NICs", {seen(3, 1, DownCause::silent)}, {nic(1), nic(3)}, Scope::nic},
  };
  for (const Case& c : cases) {
    FaultLocaliser localiser(hosts(4));
    for (const Observation& o : ring()) localiser.observe(o, 0);
    (void)localiser.wanted(kRipe);
    EXPECT_TRUE(localiser.due(kRipe).empty()) << c.name;
    EXPECT_GT(localiser.next_timeout(), kRipe) << c.name;
    for (const Observation& o : c.later) localiser.observe(o, kSecond);
    (void)localiser.wanted(kSecond + kRipe);
    std::vector<Verdict> verdicts;
    while (localiser.next_timeout() < kLater) {
      for (const Verdict& verdict : localiser.due(localiser.next_timeout()))
        verdicts.push_back(verdict);
    }
    ASSERT_EQ(verdicts.size(), c.faulty_nics.size()) << c.name;
    std::set<NicName> named;
    for (const Verdict& verdict : verdicts) {
      named.insert(verdict.faulty);
      EXPECT_EQ(verdict.scope, c.scope) << c.name;
    }
    EXPECT_EQ(named, std::set<NicName>(c.faulty_nics.begin(), c.faulty_nics.end())) << c.name;
  }
}

TEST(FaultLocaliser, DoesNotCallItTheRailWithoutTheEvidence) {
  struct Case {
    const char* name;
    uint32_t hosts;
    std::vector<Observation> seen;
  };
  std::vector<Observation> mixed = all_pairs(4, DownCause::silent);
  mixed.push_back(seen(2, 0, DownCause::carrier_lost));
  std::vector<Observation> downs;
  for (uint32_t host = 0; host < 4; ++host) {
    downs.push_back(seen(host, (host + 1) % 4, DownCause::interface_down));
  }
  const Case cases[] = {
      {"two hosts are one pair", 2, all_pairs(2, DownCause::silent)},
      {"a host has not lost its NIC", 5, all_pairs(4, DownCause::silent)},
      {"a host knows of its own NIC", 4, mixed},
      {"all hosts took their NIC down", 4, downs},
      {"one NIC explains it",
       4,
       {seen(0, 1, DownCause::silent), seen(0, 2, DownCause::silent),
        seen(0, 3, DownCause::silent)}},
  };
  for (const Case& c : cases) {
    FaultLocaliser localiser(hosts(c.hosts));
    for (const Observation& o : c.seen) localiser.observe(o, 0);
    const auto verdicts = localiser.due(kRipe);
    EXPECT_FALSE(verdicts.empty()) << c.name;
    for (const Verdict& verdict : verdicts) EXPECT_NE(verdict.scope, Scope::rail) << c.name;
  }
}

TEST(FaultLocaliser, AddsUpTheBytesAndKeepsTheLongestStall) {
  Observation first = seen(1, 0, DownCause::silent, 0, 80);
  first.retransmitted_bytes = 1000;
  first.stall_us = 7;
  Observation second = seen(2, 0, DownCause::silent, 0, 70);
  second.retransmitted_bytes = 500;
  second.stall_us = 9;
  second.detected_us = 33;
  const auto verdicts = localise({first, second});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].retransmitted_bytes, 1500u);
  EXPECT_EQ(verdicts[0].stall_us, 9u);
  EXPECT_EQ(verdicts[0].wall, 70);
  EXPECT_EQ(verdicts[0].detected_us, 33u) << "of the earliest report";
}

TEST(FaultLocaliser, SeparatesTheNextFaultOfANicFromTheLateReportsOfTheLast) {
  for (const DownCause cause : {DownCause::silent, DownCause::interface_down}) {
    FaultLocaliser localiser(hosts(4));
    localiser.observe(seen(0, 1, cause), 0);
    ASSERT_EQ(localiser.due(kRipe).size(), 1u);
    constexpr TimeNs kNext = kRipe + kSecond;
    Observation next = seen(0, 1, cause);
    localiser.observe(next, kNext);
    EXPECT_TRUE(localiser.due(kNext + kRipe).empty()) << "it was up all the time";
    next.since_up_us = 900'000;
    localiser.observe(next, kNext);
    EXPECT_EQ(localiser.due(kNext + kRipe).size(), 1u) << "it had come back";
  }
}

TEST(FaultLocaliser, SaysWhenItIsDueNext) {
  FaultLocaliser localiser(hosts(4));
  EXPECT_EQ(localiser.next_timeout(), kNever);
  localiser.observe(seen(0, 1, DownCause::silent), 5 * kSecond);
  const TimeNs asks = localiser.next_timeout();
  EXPECT_GT(asks, 5 * kSecond) << "to hear of the others first";
  EXPECT_TRUE(localiser.wanted(asks - 1).empty());
  EXPECT_EQ(localiser.wanted(asks).size(), 1u);
  EXPECT_TRUE(localiser.wanted(asks).empty()) << "once";
  const TimeNs due = localiser.next_timeout();
  EXPECT_GT(due, 5 * kSecond);
  localiser.observe(seen(1, 0, DownCause::silent), 5 * kSecond + kMillisecond);
  (void)localiser.wanted(due);
  EXPECT_EQ(localiser.next_timeout(), due) << "company must not delay a verdict";
  EXPECT_TRUE(localiser.due(due - 1).empty());
  EXPECT_EQ(localiser.due(due).size(), 1u);
  EXPECT_EQ(localiser.next_timeout(), kNever);
}

}  // namespace
}  // namespace r2ccl
