#include "plan/hosts/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/analysis/floor.h"
#include "testing/random_rails.h"

namespace r2ccl {
namespace {

// Returns what a message of `from` to `to` can use of each rail.
std::vector<double> common_rails(const HostRates& from, const HostRates& to) {
  std::vector<double> rates;
  for (size_t rail = 0; rail < from.size(); ++rail) {
    rates.push_back(std::min(from[rail].send, to[rail].receive));
  }
  return rates;
}

// Returns the hops from a host to the root; more than there are hosts where it does not get there.
size_t depth_of(const std::vector<uint8_t>& parents, uint32_t root, size_t host) {
  size_t depth = 0;
  for (; host != root && depth <= parents.size(); ++depth) host = parents[host];
  return depth;
}

// The times of all NICs, of a vector of one element, in the time in which a NIC of rate 1 moves it.
class Loads {
 public:
  explicit Loads(const std::vector<HostRates>& hosts)
      : hosts_(hosts), times_(hosts.size() * kRandomRailsMax * 2, 0.0) {}

  void add(size_t from, size_t to, double share) {
    const std::vector<double> rails = common_rails(hosts_[from], hosts_[to]);
    double all = 0;
    for (const double rate : rails) all += rate;
    ASSERT_GT(all, 0) << "no rail from host " << from << " to host " << to;
    for (size_t rail = 0; rail < rails.size(); ++rail) {
      if (rails[rail] == 0) continue;
      const double part = share * rails[rail] / all;
      times_[(from * kRandomRailsMax + rail) * 2] += part / hosts_[from][rail].send;
      times_[(to * kRandomRailsMax + rail) * 2 + 1] += part / hosts_[to][rail].receive;
    }
  }
  double most() const { return *std::ranges::max_element(times_); }

 private:
  const std::vector<HostRates>& hosts_;
  std::vector<double> times_;
};

Loads loads_of(const std::vector<HostRates>& hosts, const Packing& packing) {
  Loads loads(hosts);
  const double share = 1 / static_cast<double>(packing.trees.size());
  for (const Packing::Tree& tree : packing.trees) {
    for (size_t host = 0; host < hosts.size(); ++host) {
      if (host == tree.root) continue;
      loads.add(host, tree.sum_to[host], share);
      loads.add(tree.result_from[host], host, share);
    }
  }
  return loads;
}

double fastest_of(const std::vector<HostRates>& hosts) {
  uint64_t fastest = 0;
  for (const HostRates& host : hosts) {
    uint64_t send = 0;
    uint64_t receive = 0;
    for (const NicRate& nic : host) {
      send += nic.send;
      receive += nic.receive;
    }
    fastest = std::max({fastest, send, receive});
  }
  return static_cast<double>(fastest);
}

TEST(Packing, IsTreesAlongCommonRailsAndKnowsItsLoad) {
  std::mt19937 random(1);
  for (size_t count = 3; count <= 33; ++count) {
    const std::vector<HostRates> hosts = random_rails(count, random);
    const Packing packing = pack_trees(hosts);
    ASSERT_FALSE(packing.empty()) << count << " hosts";
    for (const Packing::Tree& tree : packing.trees) {
      for (const std::vector<uint8_t>* way : {&tree.sum_to, &tree.result_from}) {
        ASSERT_EQ(way->size(), count);
        for (size_t host = 0; host < count; ++host) {
          ASSERT_LE(depth_of(*way, tree.root, host), count - 1);
        }
      }
    }
    // Adds each message, which needs a common rail.
    const double load = loads_of(hosts, packing).most() * fastest_of(hosts) * 1024;
    EXPECT_NEAR(static_cast<double>(packing.load), load, 0.02 * load) << count << " hosts";
  }
}

// Returns the floor of a vector of one element, in the same unit.
double floor_of(const std::vector<HostRates>& hosts) {
  PlanKey key;
  key.rank_count = static_cast<int32_t>(hosts.size());
  key.count = 1;
  key.view = View::of(hosts).value();
  const double unit = static_cast<double>(kWholeNic * size_of(key.type));
  return floor_seconds(key, {.nic_bytes_per_second = unit,
                             .nics = static_cast<uint32_t>(hosts.front().size()),
                             .fabric = FabricKind::rails});
}

// A packing is a way to do the work, so it bounds the floor from above.
TEST(Packing, IsNearTheFloor) {
  std::mt19937 random(2);
  double worst = 1;
  for (const size_t count : {4, 5, 8, 12, 16, 24, 32}) {
    for (int trial = 0; trial < 10; ++trial) {
      const std::vector<HostRates> hosts = random_rails(count, random);
      const double floor = floor_of(hosts);
      const double load = loads_of(hosts, pack_trees(hosts)).most();
      EXPECT_GE(load, floor * 0.9999) << count << " hosts";
      worst = std::max(worst, load / floor);
    }
  }
  EXPECT_LT(worst, 1.5);
}

// Host 3 receives fast and sends slowly, and all it has for sending reaches host 0 alone. So it
// takes the sums of others, and its own must wait for a tree that has host 0.
TEST(Packing, AHubMayBeDearAtTheRoot) {
  std::vector<HostRates> hosts(4, HostRates(4));
  hosts[1][1] = {0, 0};
  hosts[2][1].receive = 0;
  hosts[3] = {{0, 1000}, {1000, 1000}, {0, 1000}, {529, 1000}};
  EXPECT_LT(loads_of(hosts, pack_trees(hosts)).most() * 1529, 1.2);
}

// A host that is slow in one direction is no limit for the other one.
TEST(Packing, DividesTheWorkOfEachDirection) {
  std::vector<HostRates> hosts(8, HostRates(4));
  for (NicRate& nic : hosts[3]) nic.send = 400;
  for (NicRate& nic : hosts[5]) nic.receive = 400;
  double floor = 1.0 / 1600;
  EXPECT_NEAR(loads_of(hosts, pack_trees(hosts)).most() / floor, 1, 0.01);
  for (NicRate& nic : hosts[3]) nic.send = 700;
  for (NicRate& nic : hosts[5]) nic.receive = 700;
  floor = 14 / (31 * 1000.0 - 200);
  EXPECT_NEAR(loads_of(hosts, pack_trees(hosts)).most() / floor, 1, 0.05);
}

TEST(Packing, IsEmptyWhereItDoesNotServe) {
  EXPECT_TRUE(pack_trees(std::vector<HostRates>(2, HostRates(4))).empty());
  EXPECT_TRUE(pack_trees(std::vector<HostRates>(kPackedHostsMax + 1, HostRates(1))).empty());
  EXPECT_TRUE(pack_trees(std::vector<HostRates>(4, HostRates(kPackedRailsMax + 1))).empty());
  // Two pairs of hosts on rails of their own.
  const HostRates first{{1000, 1000}, {0, 0}};
  const HostRates second{{0, 0}, {1000, 1000}};
  EXPECT_TRUE(pack_trees({first, first, second, second}).empty());
  EXPECT_FALSE(pack_trees({first, first, second, HostRates(2)}).empty());
}

TEST(Packing, OfExtremeRatesIsATree) {
  std::vector<HostRates> hosts(5, HostRates(kPackedRailsMax, NicRate{kNicRateMax, kNicRateMax}));
  hosts[1] = {NicRate{1, kNicRateMax}};
  hosts[2] = {NicRate{0, 0}, NicRate{kNicRateMax, 1}};
  const Packing packing = pack_trees(hosts);
  ASSERT_FALSE(packing.empty());
  for (const Packing::Tree& tree : packing.trees) {
    for (size_t host = 0; host < hosts.size(); ++host) {
      ASSERT_LE(depth_of(tree.sum_to, tree.root, host), 4U);
      ASSERT_LE(depth_of(tree.result_from, tree.root, host), 4U);
    }
  }
  // Both slow NICs count as 1/1024 of the fastest one, and move each chunk once.
  const double load = 1024.0 * kPackedRailsMax * kNicRateMax / (kNicRateMax >> 10);
  EXPECT_NEAR(static_cast<double>(packing.load), load, load / 20);
}

}  // namespace
}  // namespace r2ccl
