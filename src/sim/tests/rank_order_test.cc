// Reductions in rank order have the same bits on every cluster, and with a fault in the middle.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kRanks = 4;
constexpr uint64_t kElements = 300'000;

// Summands that nearly cancel each other, so that the sum depends on the order.
float value_of(int rank, uint64_t element) {
  const uint64_t draw = hash_of({static_cast<uint64_t>(rank), element});
  const float mantissa = 1.0f + static_cast<float>(draw >> 40) / 0x1p24f;
  const float scaled = std::ldexp(mantissa, static_cast<int>(draw & 7));
  return (draw & 8) == 0 ? scaled : -scaled;
}

std::vector<float> sums_in_rank_order() {
  std::vector<float> sums;
  for (uint64_t i = 0; i < kElements; ++i) {
    float sum = value_of(0, i);
    for (int rank = 1; rank < kRanks; ++rank) sum += value_of(rank, i);
    sums.push_back(sum);
  }
  return sums;
}

struct RunOptions {
  int hosts = kRanks;
  int nics = 2;
  bool reproducible = true;
  std::function<void(Cluster&)> fault{};  // in the middle of the call
};

// Returns the results of all ranks of one AllReduce.
std::vector<std::vector<float>> run(const RunOptions& run_options) {
  ClusterOptions options;
  options.hosts = run_options.hosts;
  options.ranks_per_host = kRanks / run_options.hosts;
  options.nics = run_options.nics;
  options.checked = true;
  Cluster cluster(options);
  const auto within = [&](TimeNs time, const std::function<bool()>& done) {
    return cluster.world().run_until(done, cluster.now() + time);
  };
  // On a host of several ranks a path over lo stays on standby.
  if (run_options.hosts == kRanks) {
    EXPECT_TRUE(cluster.connect());
  } else {
    cluster.world().run_for(kSecond);
  }
  std::vector<std::vector<float>> inputs(kRanks);
  std::vector<std::vector<float>> outputs(kRanks, std::vector<float>(kElements));
  int ended = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float>& input = inputs[static_cast<size_t>(rank)];
    for (uint64_t i = 0; i < kElements; ++i) input.push_back(value_of(rank, i));
    Operation call;
    call.key.type = DataType::float32;
    call.key.rank_count = kRanks;
    call.key.count = kElements;
    call.key.reproducible = run_options.reproducible;
    call.input = reinterpret_cast<const std::byte*>(input.data());
    call.output = reinterpret_cast<std::byte*>(outputs[static_cast<size_t>(rank)].data());
    call.done = [&ended](const Status& status) { ended += status.ok() ? 1 : 0; };
    cluster.node(rank).runtime->start(std::move(call));
  }
  cluster.wake_all();
  if (run_options.fault) {
    cluster.world().run_for(5 * kMillisecond);
    EXPECT_LT(ended, kRanks) << "the fault comes too late";
    run_options.fault(cluster);
  }
  EXPECT_TRUE(within(20 * kSecond, [&] { return ended == kRanks; }));
  EXPECT_EQ(cluster.check().violations(), std::vector<std::string>{});
  return outputs;
}

// Returns how many results of all ranks have other bits than the sums in rank order.
uint64_t differing(const RunOptions& run_options) {
  const std::vector<float> expected = sums_in_rank_order();
  uint64_t count = 0;
  for (const std::vector<float>& output : run(run_options)) {
    for (uint64_t i = 0; i < kElements; ++i) {
      count += std::bit_cast<uint32_t>(output[i]) == std::bit_cast<uint32_t>(expected[i]) ? 0U : 1U;
    }
  }
  return count;
}

TEST(RankOrder, HasTheSameBitsOnAllHostsAndNics) {
  for (const int hosts : {1, 2, kRanks}) {
    for (const int nics : {1, 2, 4}) {
      EXPECT_EQ(differing({.hosts = hosts, .nics = nics}), 0U) << hosts << " hosts, " << nics;
    }
  }
}

TEST(RankOrder, HasTheSameBitsWhenANicDies) {
  for (const int hosts : {2, kRanks}) {
    const RunOptions pulled{.hosts = hosts,
                            .fault = [](Cluster& c) { c.fabric().pull(c.nic(kRanks - 1, 1)); }};
    EXPECT_EQ(differing(pulled), 0U) << hosts << " hosts";
    const RunOptions hole{.hosts = hosts,
                          .fault = [](Cluster& c) { c.fabric().hole(c.nic(0, 0)); }};
    EXPECT_EQ(differing(hole), 0U) << hosts << " hosts";
  }
}

// The values tell orders apart: without the mode the plan of a host with all ranks has another.
TEST(RankOrder, IsNotTheOrderOfOtherPlans) {
  EXPECT_GT(differing({.hosts = kRanks, .reproducible = false}), 0U);
}

}  // namespace
}  // namespace r2ccl::sim
