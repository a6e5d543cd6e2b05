// The price of one more communicator over the links of a job.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/tests/contexts.h"
#include "testing/heap_bytes.h"

namespace r2ccl::sim {
namespace {

class ContextsOf64Ranks : public testing::Test {
 protected:
  static constexpr int kRanks = 64;
  static ClusterOptions options() {
    ClusterOptions options;
    options.hosts = kRanks;
    options.turns_per_check = 0;
    return options;
  }
  void SetUp() override {
    for (int rank = 0; rank < kRanks; ++rank) all_.push_back(rank);
    ASSERT_TRUE(cluster_.connect());
  }

  Cluster cluster_{options()};
  std::vector<int> all_;
};

TEST_F(ContextsOf64Ranks, TakeLittleMemoryBeforeTheFirstReduction) {
  constexpr int64_t kMost = 64 * 1024;
  Group group(cluster_, 100, all_, false);
  std::vector<int64_t> bytes;
  const int64_t before = heap_bytes();
  for (size_t rank = 0; rank < group.size(); ++rank) {
    const int64_t without = heap_bytes();
    ASSERT_TRUE(group.join(rank).ok());
    bytes.push_back(heap_bytes() - without);
  }
  EXPECT_LT(*std::ranges::max_element(bytes), kMost);
  cluster_.world().run_for(kSecond);
  EXPECT_LT((heap_bytes() - before) / kRanks, kMost);
}

// Their plans use the same links, which open their data connections when they are first used.
TEST_F(ContextsOf64Ranks, NeedNoConnection) {
  std::vector<std::unique_ptr<Group>> groups;
  size_t with_one = 0;
  for (uint64_t context = 100; groups.size() < 8; ++context) {
    Group& group = *groups.emplace_back(std::make_unique<Group>(cluster_, context, all_));
    group.begin_all();
    const auto ended = [&] { return group.all_ended(); };
    ASSERT_TRUE(cluster_.world().run_until(ended, cluster_.now() + 5 * kSecond));
    EXPECT_TRUE(group.right());
    if (groups.size() == 1) with_one = cluster_.fabric().flows().size();
  }
  EXPECT_EQ(cluster_.fabric().flows().size(), with_one);
}

}  // namespace
}  // namespace r2ccl::sim
