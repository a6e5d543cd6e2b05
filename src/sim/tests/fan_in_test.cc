// Every rank sends to every rank. Each NIC has seven senders and seven receivers at once, and no
// path may count as late because its chunks wait for their turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/limits.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kHosts = 8;
constexpr uint64_t kNicRate = 12'500'000;  // 100 Mbit/s
constexpr uint64_t kPart = 1 << 20;        // bytes from each rank to each other

class AllToAll {
 public:
  explicit AllToAll(Cluster& cluster)
      : cluster_(cluster), sent_(kHosts), received_(kHosts), left_(kHosts), done_(kHosts) {}

  void run(int operations) {
    operations_ = operations;
    for (int rank = 0; rank < kHosts; ++rank) next(rank);
    cluster_.wake_all();
    const auto finished = [&] {
      return std::ranges::all_of(done_, [&](int done) { return done == operations_; });
    };
    ASSERT_TRUE(cluster_.world().run_until(finished, cluster_.now() + 60 * kSecond));
  }
  uint64_t wrong() const { return wrong_; }

 private:
  static std::byte value(int from, int to, uint64_t at, int operation) {
    const auto mixed =
        static_cast<uint64_t>(from * 31 + to * 7 + operation) * 2654435761U + at * 97;
    return static_cast<std::byte>(mixed >> 3);
  }
  void next(int rank) {
    const auto r = static_cast<size_t>(rank);
    sent_[r].resize(kHosts * kPart);
    received_[r].assign(kHosts * kPart, std::byte{0xee});
    left_[r] = 2 * kHosts;
    const auto done = [this, rank](const Status& status) {
      ASSERT_TRUE(status.ok()) << status.message();
      if (--left_[static_cast<size_t>(rank)] == 0) finish(rank);
    };
    RankRuntime& port = *cluster_.node(rank).runtime;
    for (int step = 1; step <= kHosts; ++step) {
      const int from = (rank + kHosts - step) % kHosts;
      std::byte* target = received_[r].data() + static_cast<uint64_t>(from) * kPart;
      port.start(Operation::receive(Rank(from), {target, kPart}, DataType::int32, done));
    }
    for (int step = 1; step <= kHosts; ++step) {
      const int to = (rank + step) % kHosts;
      std::byte* source = sent_[r].data() + static_cast<uint64_t>(to) * kPart;
      for (uint64_t at = 0; at < kPart; ++at) source[at] = value(rank, to, at, done_[r]);
      port.start(Operation::send(Rank(to), {source, kPart}, DataType::int32, done));
    }
  }
  void finish(int rank) {
    const auto r = static_cast<size_t>(rank);
    for (int from = 0; from < kHosts; ++from) {
      const std::byte* part = received_[r].data() + static_cast<uint64_t>(from) * kPart;
      for (uint64_t at = 0; at < kPart; ++at) {
        wrong_ += part[at] == value(from, rank, at, done_[r]) ? 0 : 1;
      }
    }
    if (++done_[r] < operations_) next(rank);
  }

  Cluster& cluster_;
  std::vector<std::vector<std::byte>> sent_;
  std::vector<std::vector<std::byte>> received_;
  std::vector<int> left_;
  std::vector<int> done_;
  int operations_ = 0;
  uint64_t wrong_ = 0;
};

TEST(FanIn, OfSevenSendersFillsTheLineAndAccusesNoPath) {
  ClusterOptions options;
  options.hosts = kHosts;
  options.nics = 4;
  options.rate_bytes_per_s = kNicRate;
  options.world.network.stream.segment_bytes = 1448;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  AllToAll job(cluster);
  const TimeNs began = cluster.now();
  job.run(3);
  EXPECT_EQ(job.wrong(), 0U);
  const double bytes = 3.0 * (kHosts - 1) * kPart;
  const double rate = bytes / (static_cast<double>(cluster.now() - began) / 1e9);
  EXPECT_GT(rate, 0.92 * 4 * kNicRate);
  uint64_t suspicions = 0;
  uint64_t sent = 0;
  uint64_t frames = 0;
  for (int rank = 0; rank < kHosts; ++rank) {
    for (int peer = 0; peer < kHosts; ++peer) {
      const Link* link = cluster.node(rank).engine().link(Rank(peer));
      if (link == nullptr) continue;
      for (const auto& path : link->paths()) {
        suspicions += path->history.suspicions;
        sent += path->model.bytes_sent();
        frames += path->model.frames_sent();
      }
    }
  }
  EXPECT_EQ(suspicions, 0U);
  // Chunks are not cut to the share that a seventh of a NIC takes in the time of a chunk. That
  // would be 2.7 KB, and a real machine's processor would be the bottleneck.
  EXPECT_GT(sent, frames * limits::kWindowBytesMin * 3 / 4);
}

}  // namespace
}  // namespace r2ccl::sim
