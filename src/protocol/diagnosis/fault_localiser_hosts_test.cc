// The evidence that names a whole host.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "testing/fault_localiser_evidence.h"

namespace r2ccl {
namespace {

constexpr size_t kNics = 2;

// Host `near` tries its NICs to the NICs of all other hosts in the request. `reached` decides which
// ones answer.
void answer(FaultLocaliser& localiser, const ProbeRequest& request, uint32_t near,
            const std::function<bool(const NicName& far)>& reached, TimeNs now) {
  ProbeAnswer answer{request.number, near, {}};
  for (const uint32_t far : request.hosts) {
    if (far == near) continue;
    for (int index = 0; index < static_cast<int>(kNics); ++index) {
      answer.tried.push_back({nic(near, index), nic(far, index), reached(nic(far, index))});
    }
  }
  localiser.on_answer(answer, now);
}

bool all(const NicName&) {
  return true;
}

bool nobody(const NicName&) {
  return false;
}

std::vector<size_t> small_hosts(size_t count) {
  return std::vector<size_t>(count, kNics);
}

// Each host of `lost_by` reports one NIC of host `host` that fell silent.
void lose_all_nics(FaultLocaliser& localiser, uint32_t host,
                   std::initializer_list<uint32_t> lost_by) {
  int index = 0;
  for (const uint32_t observer : lost_by) {
    localiser.observe(seen(observer, host, DownCause::silent, index++), 0);
  }
}

TEST(FaultLocaliser, NamesAHostThatNoOtherHostReachesThoughTheyReachEachOther) {
  FaultLocaliser localiser(small_hosts(4));
  lose_all_nics(localiser, 3, {1, 2});
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_FALSE(requests.empty());
  for (const ProbeRequest& request : requests) {
    for (const uint32_t near : {0u, 1u, 2u}) {
      const auto not_three = [](const NicName& far) { return far.host != 3; };
      answer(localiser, request, near, not_three, 40 * kMillisecond);
    }
  }
  const auto verdicts = localiser.due(60 * kMillisecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::host);
  EXPECT_EQ(verdicts[0].faulty.host, 3u);
}

// Each is silent towards the other too, and neither is a witness against it.
TEST(FaultLocaliser, NamesTwoHostsThatGoDarkTogether) {
  FaultLocaliser localiser(small_hosts(5));
  lose_all_nics(localiser, 3, {1, 2});
  lose_all_nics(localiser, 4, {2, 3});
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_FALSE(requests.empty());
  for (const ProbeRequest& request : requests) {
    for (const uint32_t near : {0u, 1u, 2u}) {
      const auto works = [](const NicName& far) { return far.host < 3; };
      answer(localiser, request, near, works, 40 * kMillisecond);
    }
  }
  const auto verdicts = localiser.due(300 * kMillisecond);
  ASSERT_EQ(verdicts.size(), 2u);
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::host);
  EXPECT_NE(verdicts[0].faulty.host, verdicts[1].faulty.host);
  for (const Verdict& verdict : verdicts) EXPECT_GE(verdict.faulty.host, 3u);
}

// A connection between host 0 and another broke, and the hosts that were asked reach each other.
// Then the localising rank's host, 0, goes dark: it reaches no host, and hears no answer.
struct CutOffLocaliser {
  CutOffLocaliser() {
    localiser.observe(seen(0, 1, DownCause::connection_lost, 1), 0);
    first = localiser.wanted(10 * kMillisecond);
  }
  void answer_first() {
    ASSERT_EQ(first.size(), 1u);
    ASSERT_EQ(first[0].hosts, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
    for (const uint32_t near : first[0].hosts) answer(localiser, first[0], near, all, kFirstAt);
  }
  // Asks about the losses since then.
  void go_dark(uint32_t asked) {
    const auto second = localiser.wanted(kFirstAt + 10 * kMillisecond);
    ASSERT_EQ(second.size(), 1u);
    EXPECT_NE(std::ranges::find(second[0].hosts, asked), second[0].hosts.end());
    EXPECT_NE(std::ranges::find(second[0].hosts, 0u), second[0].hosts.end());
    answer(localiser, second[0], 0, nobody, kFirstAt + 40 * kMillisecond);
  }
  void expect_pairs() {
    const auto verdicts = localiser.due(kSecond);
    EXPECT_EQ(verdicts.size(), 2u);
    for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::pair);
  }
  static constexpr TimeNs kFirstAt = 12 * kMillisecond;
  FaultLocaliser localiser{small_hosts(8)};
  std::vector<ProbeRequest> first;
};

// A call of host 4 failed, and its connection to host 6 broke.
TEST(FaultLocaliser, NamesNoHostByTheProbesOfALocaliserThatIsCutOff) {
  CutOffLocaliser dark;
  dark.localiser.observe(seen(4, 6, DownCause::connection_lost, 0), 11 * kMillisecond);
  dark.answer_first();
  dark.go_dark(6);
  dark.expect_pairs();
}

// A NIC of the localising rank's host reached host 5 before it missed host 7. That is no proof that
// it worked then, and the second question does not ask host 5.
TEST(FaultLocaliser, NamesNoHostByAnEarlierAnswerOfItsWitness) {
  CutOffLocaliser dark;
  dark.localiser.observe(seen(0, 7, DownCause::silent, 0), 11 * kMillisecond);
  dark.answer_first();
  dark.go_dark(7);
  dark.expect_pairs();
}

// Two faults lost two paths, and no host has answered. The localiser waits, and the answers clear
// the host.
TEST(FaultLocaliser, WaitsForAWitnessBeforeItNamesAHost) {
  FaultLocaliser localiser(small_hosts(4));
  lose_all_nics(localiser, 3, {1, 2});
  const auto requests = localiser.wanted(10 * kMillisecond);
  ASSERT_FALSE(requests.empty());
  EXPECT_TRUE(localiser.due(kSecond).empty()) << "no host has answered";
  EXPECT_NE(localiser.next_timeout(), kNever);
  for (const ProbeRequest& request : requests) {
    for (const uint32_t near : request.hosts) answer(localiser, request, near, all, kSecond);
  }
  const auto verdicts = localiser.due(kSecond + kMillisecond);
  EXPECT_FALSE(verdicts.empty());
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::pair);
}

TEST(FaultLocaliser, NamesNoHostWithoutAWitnessWhenItHasWaitedLongEnough) {
  FaultLocaliser localiser(small_hosts(4));
  lose_all_nics(localiser, 3, {1, 2});
  ASSERT_FALSE(localiser.wanted(10 * kMillisecond).empty());
  const auto verdicts = localiser.due(3 * kSecond);
  EXPECT_FALSE(verdicts.empty());
  for (const Verdict& verdict : verdicts) EXPECT_NE(verdict.scope, Scope::host);
}

// No host has a descriptor to probe with, and all have said so: the lost paths are the evidence.
TEST(FaultLocaliser, NamesAHostByItsLostPathsWhereNoHostCanProbe) {
  FaultLocaliser localiser(small_hosts(4));
  lose_all_nics(localiser, 3, {1, 2});
  localiser.observe(seen(0, 3, DownCause::silent, 0), 0);
  for (const ProbeRequest& request : localiser.wanted(10 * kMillisecond)) {
    for (const uint32_t near : request.hosts) {
      localiser.on_answer({request.number, near, {}}, 20 * kMillisecond);
    }
  }
  const auto verdicts = localiser.due(3 * kSecond);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].scope, Scope::host);
  EXPECT_EQ(verdicts[0].faulty.host, 3u);
}

}  // namespace
}  // namespace r2ccl
