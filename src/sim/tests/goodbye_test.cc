// The orderly end on the fabric. During any faults of NICs, every rank gets all messages, leaves
// soon, and takes no other rank for dead.
#include <gtest/gtest.h>

#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr size_t kMessages = 4;
constexpr size_t kMessageBytes = 5'000;  // copied when sent: complete at once
constexpr TimeNs kLate = 2 * kMillisecond;

struct Trouble {
  const char* name;
  void (Fabric::*begin)(SimNic&);
  int nics;  // NICs of one rank, from the first on
  TimeNs lasts;
  TimeNs limit;  // time limit of the whole end
};

// Two ranks: the first sends, the second receives. The first waits before it says goodbye.
class Leaving {
 public:
  explicit Leaving(uint64_t seed) : cluster_(options(seed)), received_(kMessages) {}

  // Returns the time until both had left; kNever when it exceeded the trouble's limit.
  TimeNs run(const Trouble& trouble, int rank, TimeNs after) {
    EXPECT_TRUE(cluster_.connect());
    const TimeNs start = cluster_.now();
    Fabric& fabric = cluster_.fabric();
    for (int k = 0; k < trouble.nics; ++k) {
      SimNic& nic = cluster_.nic(rank, k);
      fabric.at(start + after, [&] { (fabric.*trouble.begin)(nic); });
      fabric.at(start + after + trouble.lasts, [&] { fabric.fix(nic); });
    }
    transfer();
    fabric.at(start + kLate, [&] { late_ = true; });
    const bool left = cluster_.world().run_until([&] { return all_left(); }, start + trouble.limit);
    expect_orderly();
    return left ? cluster_.now() - start : kNever;
  }

 private:
  static ClusterOptions options(uint64_t seed) {
    ClusterOptions options;
    options.seed = seed;
    options.management = false;
    return options;
  }

  void transfer() {
    for (size_t i = 0; i < sent_.size(); ++i) sent_[i] = static_cast<std::byte>(i * 37 >> 3);
    const auto count = [this](const Status& status) { complete_ += status.ok() ? 1 : 0; };
    for (std::vector<std::byte>& bytes : received_) {
      bytes.resize(kMessageBytes);
      cluster_.node(0).runtime->start(Operation::send(Rank(1), sent_, DataType::int32, count));
      cluster_.node(1).runtime->start(Operation::receive(Rank(0), bytes, DataType::int32, count));
    }
    cluster_.wake_all();
  }

  // Like a communicator: a rank says goodbye when all is complete, and leaves when the goodbye is
  // over.
  bool all_left() {
    for (int rank = 0; rank < 2; ++rank) {
      SimRank& node = cluster_.node(rank);
      if (node.left()) continue;
      const bool done = node.runtime->operations().idle() && (rank == 1 || late_);
      if (done && !node.runtime->leaving()) node.begin_goodbye();
      if (node.runtime->leaving() && node.runtime->goodbye_done()) cluster_.leave(rank);
    }
    return cluster_.node(0).left() && cluster_.node(1).left();
  }

  void expect_orderly() {
    EXPECT_EQ(complete_, 2 * kMessages);
    for (const auto& bytes : received_) EXPECT_EQ(bytes, sent_);
    for (int rank = 0; rank < 2; ++rank) {
      for (const auto& [peer, end] : cluster_.node(rank).ends) EXPECT_EQ(end, PeerEnd::goodbye);
    }
  }

  Cluster cluster_;
  std::vector<std::byte> sent_ = std::vector<std::byte>(kMessageBytes);
  std::vector<std::vector<std::byte>> received_;
  size_t complete_ = 0;
  bool late_ = false;
};

class Goodbye : public testing::TestWithParam<Trouble> {};

TEST_P(Goodbye, IsSaidAndHeardWheneverTheTroubleComes) {
  constexpr Trouble kNone{"none", &Fabric::fix, 0, 0, kSecond};
  const TimeNs calm = Leaving(1).run(kNone, 0, 0);
  ASSERT_LT(calm, 20 * kMillisecond);
  for (int rank = 0; rank < 2; ++rank) {
    for (TimeNs after = 0; after < calm; after += 16 * kMicrosecond) {
      EXPECT_NE(Leaving(1).run(GetParam(), rank, after), kNever);
      ASSERT_FALSE(HasFailure()) << "rank " << rank << " in trouble after " << after << " ns";
    }
  }
}

constexpr TimeNs kForEver = 100 * kSecond;
constexpr TimeNs kSoon = 100 * kMillisecond;

INSTANTIATE_TEST_SUITE_P(Trouble, Goodbye,
                         testing::Values(Trouble{"a_hole", &Fabric::hole, 1, kForEver, kSoon},
                                         Trouble{"a_hole_one_way", &Fabric::hole_tx, 1, kForEver,
                                                 kSoon},
                                         Trouble{"a_dead_NIC", &Fabric::down, 1, kForEver, kSoon},
                                         Trouble{"all_NICs_out_for_a_blink", &Fabric::down, 2,
                                                 2 * kMillisecond, kSecond},
                                         Trouble{"a_host_cut_off_for_a_while", &Fabric::hole, 2,
                                                 500 * kMillisecond, 2 * kSecond}),
                         [](const auto& trouble) { return std::string(trouble.param.name); });

}  // namespace
}  // namespace r2ccl::sim
