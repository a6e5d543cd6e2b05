#include "sim/fluid/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace r2ccl::sim {
namespace {

struct Way {
  std::vector<MaxMin::Resource> resources;
  double weight = 1;
};
using Flows = std::map<MaxMin::Flow, Way>;

void settle(MaxMin& shares) {
  shares.settle([](uint32_t, double) {});
}

// Progressive filling, as the textbook has it: all rates rise together, by their weights, until a
// resource is full, which freezes its flows.
std::map<MaxMin::Flow, double> filled(const Flows& flows, std::vector<double> capacity) {
  std::map<MaxMin::Flow, double> rates;
  while (rates.size() < flows.size()) {
    std::vector<double> open(capacity.size());
    for (const auto& [flow, way] : flows) {
      if (rates.contains(flow)) continue;
      for (const auto resource : way.resources) open[resource] += way.weight;
    }
    double least = std::numeric_limits<double>::infinity();
    size_t full = 0;
    for (size_t i = 0; i < capacity.size(); ++i) {
      if (open[i] > 0 && capacity[i] / open[i] < least) least = capacity[i] / open[i], full = i;
    }
    for (const auto& [flow, way] : flows) {
      if (rates.contains(flow) || std::ranges::find(way.resources, full) == way.resources.end()) {
        continue;
      }
      rates[flow] = way.weight * least;
      for (const auto resource : way.resources) capacity[resource] -= rates[flow];
    }
  }
  return rates;
}

TEST(MaxMinTest, AFlowAloneHasTheLeastCapacityOnItsWay) {
  MaxMin shares;
  const auto wide = shares.add_resource(10);
  const auto narrow = shares.add_resource(3);
  const auto flow = shares.add_flow(std::vector{wide, narrow}, 7);
  uint32_t told = 0;
  shares.settle([&](uint32_t owner, double difference) {
    told = owner;
    EXPECT_DOUBLE_EQ(difference, 3);
  });
  EXPECT_EQ(told, 7U);
  EXPECT_DOUBLE_EQ(shares.rate(flow), 3);
}

TEST(MaxMinTest, FlowsThatOthersHoldBackLeaveTheirShare) {
  MaxMin shares;
  const auto first = shares.add_resource(10);
  const auto second = shares.add_resource(4);
  const auto both_a = shares.add_flow(std::vector{first, second}, 0);
  const auto both_b = shares.add_flow(std::vector{second, first}, 1);
  const auto alone = shares.add_flow(std::vector{first}, 2);
  settle(shares);
  EXPECT_DOUBLE_EQ(shares.rate(both_a), 2);
  EXPECT_DOUBLE_EQ(shares.rate(both_b), 2);
  EXPECT_DOUBLE_EQ(shares.rate(alone), 6);
}

TEST(MaxMinTest, FlowsShareByTheirWeights) {
  MaxMin shares;
  const auto first = shares.add_resource(12);
  const auto second = shares.add_resource(1);
  const auto light = shares.add_flow(std::vector{first}, 0, 0.25);
  const auto heavy = shares.add_flow(std::vector{first}, 1, 0.75);
  settle(shares);
  EXPECT_DOUBLE_EQ(shares.rate(light), 3);
  EXPECT_DOUBLE_EQ(shares.rate(heavy), 9);
  const auto held = shares.add_flow(std::vector{first, second}, 2, 4);
  settle(shares);
  EXPECT_DOUBLE_EQ(shares.rate(held), 1);
  EXPECT_DOUBLE_EQ(shares.rate(heavy), 8.25);
}

TEST(MaxMinTest, OnlyFlowsWhoseRateChangesAreTold) {
  MaxMin shares;
  const auto left = shares.add_resource(4);
  const auto right = shares.add_resource(4);
  shares.add_flow(std::vector{left}, 0);
  const auto second = shares.add_flow(std::vector{left}, 1);
  shares.add_flow(std::vector{right}, 2);
  settle(shares);
  shares.remove_flow(second);
  std::vector<uint32_t> told;
  shares.settle([&](uint32_t owner, double) { told.push_back(owner); });
  EXPECT_EQ(told, std::vector<uint32_t>{0});
}

TEST(MaxMinTest, WithoutCapacityThereIsNoRate) {
  MaxMin shares;
  const auto resource = shares.add_resource(5);
  const auto flow = shares.add_flow(std::vector{resource}, 0);
  settle(shares);
  shares.set_capacity(resource, 0);
  settle(shares);
  EXPECT_EQ(shares.rate(flow), 0);
  shares.set_capacity(resource, 2);
  settle(shares);
  EXPECT_DOUBLE_EQ(shares.rate(flow), 2);
}

// Random networks, in which flows come and go and capacities change.
TEST(MaxMinTest, TheRatesAreThoseOfProgressiveFilling) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    MaxMin shares;
    std::vector<double> capacity;
    const size_t resources = 2 + below(12);
    for (size_t i = 0; i < resources; ++i) {
      capacity.push_back(static_cast<double>(1 + below(20)));
      shares.add_resource(capacity.back());
    }
    Flows flows;
    for (int change = 0; change < 60; ++change) {
      const size_t kind = below(4);
      if (kind == 0 && !flows.empty()) {
        const auto gone = std::next(flows.begin(), static_cast<long>(below(flows.size())));
        shares.remove_flow(gone->first);
        flows.erase(gone);
      } else if (kind == 1) {
        const size_t resource = below(resources);
        capacity[resource] = static_cast<double>(below(20));
        shares.set_capacity(static_cast<MaxMin::Resource>(resource), capacity[resource]);
      } else {
        std::vector<MaxMin::Resource> way(resources);
        for (size_t i = 0; i < resources; ++i) way[i] = static_cast<MaxMin::Resource>(i);
        std::shuffle(way.begin(), way.end(), random);
        way.resize(1 + below(std::min<size_t>(resources, MaxMin::kResourcesOfFlowMax)));
        const double weight = seed % 2 == 0 ? 1 : static_cast<double>(1 + below(64)) / 16;
        flows[shares.add_flow(way, 0, weight)] = {way, weight};
      }
      settle(shares);
      ASSERT_EQ(shares.flows(), flows.size());
      for (const auto& [flow, rate] : filled(flows, capacity)) {
        ASSERT_NEAR(shares.rate(flow), rate, 1e-8) << "seed " << seed << " change " << change;
      }
    }
  }
}

}  // namespace
}  // namespace r2ccl::sim
