// For tests of several communicators over the links of one simulated job.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/cluster.h"

namespace r2ccl::sim {

inline constexpr int kHosts = 4;
inline constexpr TimeNs kSoon = 500 * kMillisecond;
inline constexpr size_t kCount = 20'000;

// A communicator of some processes of the cluster: its rank i is the process peers[i].
class Group {
 public:
  Group(Cluster& cluster, uint64_t context, std::vector<int> peers, bool join_all = true)
      : cluster_(cluster), context_(context), peers_(std::move(peers)) {
    ranks_.resize(peers_.size());
    for (size_t rank = 0; join_all && rank < peers_.size(); ++rank) {
      EXPECT_TRUE(join(rank).ok());
    }
  }

  Status join(size_t rank) {
    RankOptions options;
    options.self = Rank(static_cast<int32_t>(rank));
    options.rank_count = static_cast<int32_t>(peers_.size());
    options.name = "group " + std::to_string(context_);
    auto made = std::make_unique<RankRuntime>(cluster_.node(peers_[rank]).runtime->shared_job(),
                                              std::move(options), observer_);
    std::vector<Rank> peers;
    for (const int peer : peers_) peers.emplace_back(peer);
    const Status joined = made->join(ContextId(context_), std::move(peers));
    ranks_[rank].runtime = std::move(made);
    cluster_.wake_all();
    return joined;
  }
  size_t size() const { return peers_.size(); }
  RankRuntime& rank(size_t number) { return *ranks_[number].runtime; }

  // Begins an AllReduce on one rank. Each rank and each round has other values.
  void begin(size_t rank, int32_t round = 0) {
    One& one = ranks_[rank];
    one.values.resize(kCount);
    for (size_t i = 0; i < kCount; ++i) one.values[i] = value(rank, round, i);
    one.ended.reset();
    Operation call;
    call.key.collective = Collective::all_reduce;
    call.key.type = DataType::int32;
    call.key.op = ReduceOp::sum;
    call.key.rank_count = static_cast<int32_t>(size());
    call.key.count = kCount;
    call.input = call.output = reinterpret_cast<std::byte*>(one.values.data());
    call.done = [&one](const Status& status) { one.ended = status; };
    one.runtime->start(std::move(call));
    cluster_.wake_all();
  }
  void begin_all(int32_t round = 0) {
    for (size_t rank = 0; rank < size(); ++rank) begin(rank, round);
  }
  const std::optional<Status>& ended(size_t rank) const { return ranks_[rank].ended; }
  bool all_ended() const {
    return std::ranges::all_of(ranks_, [](const One& one) { return one.ended.has_value(); });
  }
  // Returns whether every element of every rank is right.
  bool right(int32_t round = 0) const {
    return std::ranges::all_of(ranks_, [&](const One& one) {
      for (size_t i = 0; i < kCount; ++i) {
        int32_t sum = 0;
        for (size_t rank = 0; rank < size(); ++rank) sum += value(rank, round, i);
        if (one.values[i] != sum) return false;
      }
      return one.ended && one.ended->ok();
    });
  }
  bool failed(size_t rank) { return !ranks_[rank].runtime->failure().ok(); }

  void begin_goodbye(size_t rank) {
    ranks_[rank].runtime->begin_goodbye();
    cluster_.wake_all();
  }
  bool parted() {
    return std::ranges::all_of(ranks_, [](const One& one) { return one.runtime->goodbye_done(); });
  }
  void destroy(size_t rank) { ranks_[rank].runtime.reset(); }
  // Ends it in order.
  bool end() {
    for (size_t rank = 0; rank < size(); ++rank) begin_goodbye(rank);
    const bool done =
        cluster_.world().run_until([this] { return parted(); }, cluster_.now() + kSoon);
    for (size_t rank = 0; rank < size(); ++rank) destroy(rank);
    return done;
  }

 private:
  struct One {
    std::vector<int32_t> values;
    std::optional<Status> ended;
    std::unique_ptr<RankRuntime> runtime;
  };
  int32_t value(size_t rank, int32_t round, size_t i) const {
    return static_cast<int32_t>(i * (rank + 2)) + 1'000 * round + static_cast<int32_t>(context_);
  }

  Cluster& cluster_;
  const uint64_t context_;
  const std::vector<int> peers_;
  RankObserver observer_;
  std::vector<One> ranks_;
};

class Contexts : public testing::Test {
 protected:
  void SetUp() override {
    ClusterOptions options;
    options.hosts = kHosts;
    options.checked = true;
    cluster_.emplace(options);
    ASSERT_TRUE(cluster_->connect());
  }
  Group& make(uint64_t context, std::vector<int> peers, bool join_all = true) {
    groups_.push_back(std::make_unique<Group>(*cluster_, context, std::move(peers), join_all));
    return *groups_.back();
  }
  bool within(TimeNs time, const std::function<bool()>& done) {
    return cluster_->world().run_until(done, cluster_->now() + time);
  }
  // Runs one AllReduce, which must end well.
  void expect_works(Group& group, int32_t round = 0) {
    group.begin_all(round);
    EXPECT_TRUE(within(5 * kSecond, [&] { return group.all_ended(); }));
    EXPECT_TRUE(group.right(round));
  }
  RankRuntime& first(int number) { return *cluster_->node(number).runtime; }
  Link& link(int from, int to) { return *cluster_->node(from).engine().link(Rank(to)); }

  std::optional<Cluster> cluster_;
  std::vector<std::unique_ptr<Group>> groups_;  // last: their runtimes use the cluster
};

}  // namespace r2ccl::sim
