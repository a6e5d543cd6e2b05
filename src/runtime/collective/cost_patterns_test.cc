#include "runtime/collective/cost_patterns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace r2ccl {
namespace {

struct Job {
  HostGroups hosts;
  size_t ranks;
};

Job many_hosts() {
  std::vector<uint32_t> host_of;
  for (uint32_t rank = 0; rank < 120; ++rank) host_of.push_back(rank / 2);
  return {HostGroups(host_of), host_of.size()};
}

std::vector<Job> jobs() {
  const auto job = [](const std::vector<uint32_t>& host_of) {
    return Job{HostGroups(host_of), host_of.size()};
  };
  return {job({0, 1}),
          job({0, 0}),
          job({0, 1, 2, 3, 4}),
          job({0, 0, 0, 0, 0, 0, 0, 0}),
          job({0, 0, 1, 1}),
          job({0, 1, 2, 0, 1, 2, 0}),
          job({0, 0, 0, 1}),
          job({0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3}),
          job(std::vector<uint32_t>(100)),
          many_hosts()};
}

PatternPart part(size_t pattern, const Job& job, size_t rank) {
  return part_in(static_cast<CostPattern>(pattern), job.hosts, job.ranks,
                 Rank(static_cast<int32_t>(rank)));
}

TEST(CostPatterns, ThePeersOfARankHaveItAmongTheirs) {
  for (const Job& job : jobs()) {
    const auto peers = [&](size_t rank) {
      return measured_peers(job.hosts, job.ranks, Rank(static_cast<int32_t>(rank)));
    };
    for (size_t rank = 0; rank < job.ranks; ++rank) {
      for (const Rank peer : peers(rank)) {
        const auto back = peers(static_cast<size_t>(peer.value()));
        EXPECT_EQ(std::ranges::count(back, Rank(static_cast<int32_t>(rank))), 1);
        EXPECT_NE(static_cast<size_t>(peer.value()), rank);
      }
    }
  }
}

TEST(CostPatterns, AFewHostsMeetAllOthersAndManyDoNot) {
  const auto peers = [](size_t hosts, size_t rank) {
    std::vector<uint32_t> host_of;
    for (uint32_t host = 0; host < hosts; ++host) host_of.push_back(host);
    return measured_peers(HostGroups(host_of), hosts, Rank(static_cast<int32_t>(rank))).size();
  };
  for (size_t hosts = 1; hosts <= 9; ++hosts) {
    for (size_t rank = 0; rank < hosts; ++rank) EXPECT_EQ(peers(hosts, rank), hosts - 1);
  }
  for (const size_t rank : {0, 5, 31}) EXPECT_EQ(peers(256, rank), 8u);
  for (const size_t rank : {32, 255}) EXPECT_EQ(peers(256, rank), 0u);
}

TEST(CostPatterns, HaveAReceiveForEachSend) {
  for (const Job& job : jobs()) {
    for (size_t pattern = 0; pattern < kCostPatterns; ++pattern) {
      std::map<std::pair<size_t, size_t>, std::vector<size_t>> sent;  // bytes by from, to
      std::map<std::pair<size_t, size_t>, std::vector<size_t>> received;
      for (size_t rank = 0; rank < job.ranks; ++rank) {
        const PatternPart mine = part(pattern, job, rank);
        EXPECT_EQ(mine.to.empty(), mine.from.empty());
        for (const Rank to : mine.to) {
          ASSERT_NE(static_cast<size_t>(to.value()), rank);
          sent[{rank, static_cast<size_t>(to.value())}].push_back(mine.bytes);
          EXPECT_LE(mine.bytes, kPatternBytesMax);
        }
        for (const Rank from : mine.from) {
          received[{static_cast<size_t>(from.value()), rank}].push_back(mine.bytes);
        }
      }
      EXPECT_EQ(sent, received) << "pattern " << pattern << ", " << job.ranks << " ranks";
    }
  }
}

// Somebody must send first.
TEST(CostPatterns, LetSomeRankBegin) {
  for (const Job& job : jobs()) {
    for (size_t pattern = 0; pattern < kCostPatterns; ++pattern) {
      size_t waiting = 0;
      size_t beginning = 0;
      for (size_t rank = 0; rank < job.ranks; ++rank) {
        const PatternPart mine = part(pattern, job, rank);
        if (!mine.to.empty()) ++(mine.answers ? waiting : beginning);
      }
      EXPECT_TRUE(waiting == 0 || beginning > 0);
    }
  }
}

TEST(CostPatterns, StayWithinTheHostOrCrossIt) {
  const Job job = jobs()[5];  // ranks 0, 3, 6 on the first of three hosts
  for (size_t pattern = 0; pattern < kCostPatterns; ++pattern) {
    const bool within = pattern == static_cast<size_t>(CostPattern::shift) ||
                        pattern == static_cast<size_t>(CostPattern::fan) ||
                        pattern == static_cast<size_t>(CostPattern::star) ||
                        pattern == static_cast<size_t>(CostPattern::large_shift) ||
                        pattern == static_cast<size_t>(CostPattern::large_fan) ||
                        pattern == static_cast<size_t>(CostPattern::large_star);
    const PatternPart first = part(pattern, job, 0);
    ASSERT_FALSE(first.to.empty());
    for (const Rank to : first.to) EXPECT_EQ(to.value() % 3 == 0, within) << pattern;
  }
}

// 8 ranks on 2 hosts: each cost is found again in the times of patterns that have it.
TEST(Costs, FollowFromTheTimes) {
  const std::vector<uint32_t> host_of{0, 0, 0, 0, 1, 1, 1, 1};
  PatternTimes times{};
  const auto set = [&](CostPattern pattern, uint64_t us) {
    times[static_cast<size_t>(pattern)] = us * 1000;
  };
  set(CostPattern::shift, 10);
  set(CostPattern::fan, 10 + 2 * 3);            // two messages more
  set(CostPattern::star, 2 * 3 * 4);            // there and back, three messages each
  set(CostPattern::large_shift, 10 + 256 * 2);  // 256 KiB
  set(CostPattern::large_fan, 16 + 256 * 5);
  set(CostPattern::large_star, 24 + 2 * 3 * 256);
  set(CostPattern::net_shift, 100);
  set(CostPattern::net_fan, 100 + 3 * 20);
  set(CostPattern::leader_shift, 60);
  set(CostPattern::leader_fan, 60);                  // there is one other leader
  set(CostPattern::large_net_shift, 100 + 64 * 40);  // 64 KiB of each of four ranks
  set(CostPattern::large_net_fan, 160 + 64 * 50);
  set(CostPattern::large_leader_shift, 60 + 256 * 8);
  const PlanCosts costs = costs_from(times, HostGroups(host_of), host_of.size(), 2);
  EXPECT_EQ(costs.memory,
            domain_costs({10'000, 3'000, 2'000'000, 5'000'000, 4'000, 4'000, 1'000'000}));
  EXPECT_EQ(costs.network,
            domain_costs({100'000, 20'000, 40'000'000, 50'000'000, 60'000, 15'000, 8'000'000}));
}

TEST(CostPatterns, LeaveOutWhoIsTooMany) {
  for (const Job& job : {Job{HostGroups(std::vector<uint32_t>(100)), 100}, many_hosts()}) {
    size_t most = 0;
    for (size_t pattern = 0; pattern < kCostPatterns; ++pattern) {
      size_t taking = 0;
      for (size_t rank = 0; rank < job.ranks; ++rank) {
        taking += part(pattern, job, rank).to.empty() ? 0 : 1;
      }
      most = std::max(most, taking);
    }
    EXPECT_EQ(most, job.hosts.hosts().size() == 1 ? kMeasuredMax : 2 * kMeasuredMax);
  }
}

// 128 ranks share memory, and take turns on fewer cores.
TEST(Costs, OfManyRanksFollowFromThoseOfSome) {
  PatternTimes times{};
  times.fill(64'000'000);
  times[static_cast<size_t>(CostPattern::shift)] = 32'000;
  const HostGroups hosts(std::vector<uint32_t>(128));
  const DomainCosts few = costs_from(times, hosts, 128, 2).memory;
  const DomainCosts some = costs_from(times, hosts, 128, 64).memory;
  const DomainCosts all = costs_from(times, hosts, 128, 500).memory;
  EXPECT_EQ(few.hop_ns, 4 * 32'000u);
  EXPECT_EQ(some.hop_ns, 2 * 32'000u);
  EXPECT_EQ(all.hop_ns, 32'000u);
  EXPECT_EQ(few.kib_ps, all.kib_ps);
  EXPECT_EQ(few.leader_hop_ns, all.leader_hop_ns);
}

TEST(Costs, OfWhatAJobLacksAreTheDefaults) {
  PatternTimes times{};
  times.fill(1000);
  const std::vector<uint32_t> one_host{0, 0, 0};
  EXPECT_EQ(costs_from(times, HostGroups(one_host), 3, 2).network, PlanCosts().network);
  EXPECT_EQ(costs_from(times, HostGroups(), 3, 2).memory, PlanCosts().memory);
}

// A large message may be faster than a small one by accident.
TEST(Costs, AreNeverNothing) {
  PatternTimes times{};
  times.fill(1000);
  const std::vector<uint32_t> host_of{0, 0, 1, 1};
  const PlanCosts costs = costs_from(times, HostGroups(host_of), 4, 2);
  for (const uint64_t each : numbers_of(costs.memory)) EXPECT_GT(each, 0u);
  for (const uint64_t each : numbers_of(costs.network)) EXPECT_GT(each, 0u);
}

}  // namespace
}  // namespace r2ccl
