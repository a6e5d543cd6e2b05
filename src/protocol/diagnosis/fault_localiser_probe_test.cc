// The evidence that third hosts' probes add to the reports of a path's two ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "testing/fault_localiser_evidence.h"

namespace r2ccl {
namespace {

// Each host probes its NIC of this index to the same NIC of all later hosts; `broken` pairs are not
// reached.
void answer_all(FaultLocaliser& localiser, const ProbeRequest& request, int index,
                const std::set<std::pair<uint32_t, uint32_t>>& broken, TimeNs now) {
  for (const uint32_t near : request.hosts) {
    ProbeAnswer answer{request.number, near, {}};
    for (const uint32_t far : request.hosts) {
      if (far == near) continue;
      const bool reached = !broken.contains(std::minmax(near, far));
      answer.tried.push_back({nic(near, index), nic(far, index), reached});
    }
    localiser.on_answer(answer, now);
  }
}

// One pair was lost, and the probes tell the rest before the probe timeout.
TEST(FaultLocaliser, LocalisesByProbesAFaultThatOnePairCannot) {
  struct Case {
    const char* name;
    std::set<std::pair<uint32_t, uint32_t>> broken;
    Scope scope;
  };
  const Case cases[] = {
      {"a NIC", {{0, 1}, {0, 2}, {0, 3}}, Scope::nic},
      {"the network between them", {{0, 1}}, Scope::pair},
      {"the rail", {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}, Scope::rail},
  };
  for (const Case& c : cases) {
    FaultLocaliser localiser(hosts(4));
    localiser.observe(seen(1, 0, DownCause::silent), 0);
    const auto requests = localiser.wanted(10 * kMillisecond);
    ASSERT_EQ(requests.size(), 1u);
    EXPECT_EQ(requests[0].hosts.size(), 4u);
    answer_all(localiser, requests[0], 0, c.broken, 45 * kMillisecond);
    const auto verdicts = localiser.due(60 * kMillisecond);
    ASSERT_EQ(verdicts.size(), 1u) << c.name;
    EXPECT_EQ(verdicts[0].scope, c.scope) << c.name;
    EXPECT_TRUE(c.scope != Scope::nic || verdicts[0].faulty == nic(0)) << c.name;
    EXPECT_EQ(localiser.next_timeout(), kNever) << c.name;
  }
}

// The kernel of the far end had answered when the path was given up, and no longer does: probes
// tell more than the word of one end.
TEST(FaultLocaliser, LocalisesByProbesAPathThatStalled) {
  struct Case {
    const char* name;
    std::set<std::pair<uint32_t, uint32_t>> broken;
    TimeNs due;
    Scope scope;
  };
  const Case cases[] = {
      {"a NIC", {{0, 2}, {1, 2}}, 60 * kMillisecond, Scope::nic},
      {"packets that a connect does not need", {{0, 2}}, 90 * kMillisecond, Scope::pair},
      {"the network between them", {{1, 2}}, 60 * kMillisecond, Scope::pair},
  };
  for (const Case& c : cases) {
    FaultLocaliser localiser(hosts(3));
    localiser.observe(seen(2, 1, DownCause::stalled), 0);
    const auto requests = localiser.wanted(10 * kMillisecond);
    ASSERT_EQ(requests.size(), 1u);
    answer_all(localiser, requests[0], 0, c.broken, 45 * kMillisecond);
    EXPECT_TRUE(localiser.due(c.due - kMillisecond).empty()) << c.name;
    auto verdicts = localiser.due(c.due);
    ASSERT_EQ(verdicts.size(), 1u) << c.name;
    EXPECT_EQ(verdicts[0].scope, c.scope) << c.name;
    EXPECT_TRUE(c.scope != Scope::nic || verdicts[0].faulty == nic(2)) << c.name;
    localiser.observe(seen(2, 0, DownCause::silent), 300 * kMillisecond);
    EXPECT_TRUE(c.scope != Scope::nic || localiser.due(kSecond).empty()) << c.name;
  }
}

TEST(FaultLocaliser, CallsAPathThatStalledAPairWhereNobodyProbes) {
  FaultLocaliser localiser(hosts(3));
  localiser.observe(seen(2, 1, DownCause::stalled), 0);
  ASSERT_EQ(localiser.wanted(10 * kMillisecond).size(), 1u);
  EXPECT_TRUE(localiser.due(249 * kMillisecond).empty());
  const auto verdicts = localiser.due(250 * kMillisecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::pair);
}

// A stopped process answers no request, and its kernel answers the others' probes.
TEST(FaultLocaliser, DoesNotNeedTheAnswerOfEveryHost) {
  FaultLocaliser localiser(hosts(3));
  localiser.observe(seen(1, 0, DownCause::silent), 0);
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  localiser.on_answer({requests[0].number, 0, {{nic(0), nic(1), false}, {nic(0), nic(2), false}}},
                      40 * kMillisecond);
  localiser.on_answer({requests[0].number, 1, {{nic(1), nic(0), false}, {nic(1), nic(2), true}}},
                      40 * kMillisecond);
  const auto verdicts = localiser.due(60 * kMillisecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::nic);
  EXPECT_EQ(verdicts[0].faulty, nic(0));
}

TEST(FaultLocaliser, BelievesAnyEndThatSaysAConnectPasses) {
  FaultLocaliser localiser(hosts(3));
  localiser.observe(seen(1, 0, DownCause::silent), 0);
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  // Host 0 had no time to hear of its own probes.
  localiser.on_answer({requests[0].number, 0, {{nic(0), nic(1), false}, {nic(0), nic(2), false}}},
                      40 * kMillisecond);
  localiser.on_answer({requests[0].number, 2, {{nic(2), nic(0), true}, {nic(2), nic(1), true}}},
                      40 * kMillisecond);
  const auto verdicts = localiser.due(60 * kMillisecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::pair);
}

// A third host that reaches no other is another matter than a connection that broke.
TEST(FaultLocaliser, KeepsAPairThatAnswersApartFromNicsThatDoNot) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 2, DownCause::connection_lost), 0);
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  answer_all(localiser, requests[0], 0, {{0, 1}, {1, 2}, {1, 3}}, 45 * kMillisecond);
  const auto verdicts = localiser.due(300 * kMillisecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::pair);
  EXPECT_EQ(verdicts[0].faulty, nic(0));
  EXPECT_EQ(verdicts[0].other, nic(2));
}

TEST(FaultLocaliser, BlamesNoNicForConnectionsThatWereResetThoughTheirEndsReachEachOther) {
  FaultLocaliser localiser(hosts(3));
  localiser.observe(seen(0, 1, DownCause::connection_lost), 0);
  localiser.observe(seen(0, 2, DownCause::connection_lost), 0);
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  answer_all(localiser, requests[0], 0, {}, 45 * kMillisecond);
  const auto verdicts = localiser.due(300 * kMillisecond);
  ASSERT_EQ(verdicts.size(), 2u);
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::pair);
}

// No host could try the lost pairs. So the localiser waits for paths that carry nothing, and the
// other probes' answers hold all the while.
TEST(FaultLocaliser, RemembersTheProbesAnswersWhileItWaitsForIdlePaths) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 1, DownCause::silent), 0);
  localiser.observe(seen(0, 2, DownCause::silent), 0);
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  for (const uint32_t host : requests[0].hosts) {
    ProbeAnswer answer{requests[0].number, host, {}};
    if (host != 3) answer.tried.push_back({nic(host), nic(3), true});
    localiser.on_answer(answer, 45 * kMillisecond);
  }
  EXPECT_TRUE(localiser.due(2 * kSecond).empty());
  const auto verdicts = localiser.due(3 * kSecond);
  ASSERT_EQ(verdicts.size(), 2u);
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::pair);
}

// Each NIC of host 0 is lost to one other, and neither of these reaches another NIC. Two faults
// elsewhere look the same.
TEST(FaultLocaliser, NamesNoHostThatOnlyUnreachableNicsMiss) {
  FaultLocaliser localiser({2, 2, 2});
  localiser.observe(seen(0, 1, DownCause::silent, 1), 0);
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), 1u);
  for (const uint32_t host : requests[0].hosts) {
    ProbeAnswer answer{requests[0].number, host, {}};
    for (uint32_t other = 0; other < 3; ++other) {
      // The other NIC of host 1 is down, so no host tries it.
      if (other == host || host == 1 || other == 1) continue;
      answer.tried.push_back({nic(host, 0), nic(other, 0), false});
    }
    if (host < 2) answer.tried.push_back({nic(host, 1), nic(1 - host, 1), false});
    localiser.on_answer(answer, 45 * kMillisecond);
  }
  const auto verdicts = localiser.due(kSecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_NE(verdicts[0].scope, Scope::host);
}

// A host that was cut off has reached a verdict about itself, and the others hear it only when it
// is back. Meanwhile they lost the connections that it had lost long before.
TEST(FaultLocaliser, CountsConnectionsOfANicThatAnotherHasNamedAsTheSameFault) {
  FaultLocaliser localiser(hosts(4));
  localiser.observe(seen(0, 3, DownCause::connection_lost), 0);
  localiser.observe(seen(1, 3, DownCause::connection_lost), 0);
  Verdict elsewhere;
  elsewhere.scope = Scope::nic;
  elsewhere.faulty = nic(3);
  localiser.on_verdict(elsewhere, 50 * kMillisecond);
  localiser.observe(seen(2, 3, DownCause::connection_lost), 60 * kMillisecond);
  EXPECT_TRUE(localiser.due(500 * kMillisecond).empty());
  Observation later = seen(2, 3, DownCause::connection_lost);
  later.since_up_us = 100'000;  // it had come back since
  localiser.observe(later, 1 * kSecond);
  EXPECT_EQ(localiser.due(9 * kSecond).size(), 1u);
}

TEST(FaultLocaliser, NamesAProcessThatDiedAndNotItsNics) {
  FaultLocaliser localiser(hosts(3));
  localiser.observe(seen(0, 1, DownCause::connection_lost, 0), 0);
  localiser.observe(seen(2, 1, DownCause::connection_lost, 1), 0);
  Observation died = seen(0, 1, DownCause::connection_lost);
  died.near.nic.clear();
  died.far.nic.clear();
  localiser.observe(died, kMillisecond);
  died.observer = Rank(2);
  localiser.observe(died, kMillisecond);
  const auto verdicts = localiser.due(kMillisecond);
  ASSERT_EQ(verdicts.size(), 1u) << "once, from either end";
  EXPECT_EQ(verdicts[0].scope, Scope::process);
  EXPECT_EQ(verdicts[0].process, Rank(1));
  EXPECT_EQ(localiser.next_timeout(), kNever);
}

}  // namespace
}  // namespace r2ccl
