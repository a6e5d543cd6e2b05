// Ranks finalize while calls wait. Every rank ends soon, whichever calls each has made and
// whichever NIC fails meanwhile: in order where all calls have met their counterparts, and
// otherwise with an error that says so.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "runtime/rank_runtime.h"
#include "sim/cluster/cluster.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

constexpr int kRanks = 3;
constexpr size_t kCallsMax = 3;
constexpr size_t kBytes = 200'000;  // a Send this long waits for its Recv
constexpr TimeNs kBound = RankRuntime::kCloseCallsAfter + kSecond;

// The calls of one rank: the number of Sends and Recvs, for each peer, and of AllReduces.
struct Calls {
  std::array<size_t, kRanks> sends{}, receives{};
  size_t collectives = 0;
};

class Job {
 public:
  explicit Job(uint64_t seed) : random_(seed), cluster_(options(seed)) {
    calls_.resize(kRanks);
    for (int from = 0; from < kRanks; ++from) {
      at(from).collectives = 1;
      for (int to = 0; to < kRanks; ++to) {
        if (from == to) continue;
        at(from).sends[static_cast<size_t>(to)] = at(to).receives[static_cast<size_t>(from)] =
            random_.below(kCallsMax);
      }
    }
    // Half of the jobs have ranks with other calls.
    for (uint64_t left = random_.below(2) * (1 + random_.below(3)); left > 0; --left) change_one();
  }

  // Returns whether all ranks ended in time.
  bool run() {
    EXPECT_TRUE(cluster_.connect());
    trouble_one_nic();
    for (int rank = 0; rank < kRanks; ++rank) make_calls(rank);
    cluster_.wake_all();
    called_at_ = cluster_.now();
    return cluster_.world().run_until([&] { return all_ended(); }, called_at_ + kBound);
  }

  bool calls_match() const {
    for (int from = 0; from < kRanks; ++from) {
      if (at(from).collectives != at(0).collectives) return false;
      for (int to = 0; to < kRanks; ++to) {
        if (at(from).sends[static_cast<size_t>(to)] != at(to).receives[static_cast<size_t>(from)]) {
          return false;
        }
      }
    }
    return true;
  }

  // Checks how each rank ended.
  void expect_right_ends() {
    for (int rank = 0; rank < kRanks; ++rank) {
      const Status& why = cluster_.node(rank).runtime->failure();
      if (calls_match()) {
        EXPECT_EQ(why.message(), "") << "rank " << rank;
        EXPECT_TRUE(cluster_.node(rank).runtime->goodbye_done()) << "rank " << rank;
        continue;
      }
      const std::string& text = why.message();
      EXPECT_TRUE(text.find(" not match") != std::string::npos ||
                  text.find(" has left: ") != std::string::npos)
          << "rank " << rank << ": " << text;
    }
  }

 private:
  static ClusterOptions options(uint64_t seed) {
    ClusterOptions options;
    options.seed = seed;
    options.hosts = kRanks;
    return options;
  }

  Calls& at(int rank) { return calls_[static_cast<size_t>(rank)]; }
  const Calls& at(int rank) const { return calls_[static_cast<size_t>(rank)]; }

  void change_one() {
    const int rank = static_cast<int>(random_.below(kRanks));
    const size_t peer = (static_cast<size_t>(rank) + 1 + random_.below(kRanks - 1)) % kRanks;
    const std::array<size_t*, 3> counts = {&at(rank).sends[peer], &at(rank).receives[peer],
                                           &at(rank).collectives};
    size_t& count = *counts[random_.below(counts.size())];
    count == 0 || random_.below(2) == 0 ? ++count : --count;
  }

  void trouble_one_nic() {
    SimNic& nic = cluster_.nic(static_cast<int>(random_.below(kRanks)), 0);
    const auto after = static_cast<TimeNs>(random_.below(10 * kMillisecond));
    cluster_.fabric().at(cluster_.now() + after, [this, &nic] { cluster_.fabric().hole(nic); });
  }

  void make_calls(int rank) {
    RankRuntime& runtime = *cluster_.node(rank).runtime;
    const auto ended = [](const Status&) {};
    for (int peer = 0; peer < kRanks; ++peer) {
      for (size_t i = 0; i < at(rank).receives[static_cast<size_t>(peer)]; ++i) {
        runtime.start(Operation::receive(Rank(peer), new_memory(), DataType::int32, ended));
      }
      for (size_t i = 0; i < at(rank).sends[static_cast<size_t>(peer)]; ++i) {
        runtime.start(Operation::send(Rank(peer), new_memory(), DataType::int32, ended));
      }
    }
    for (size_t i = 0; i < at(rank).collectives; ++i) {
      Operation call;
      call.key.collective = Collective::all_reduce;
      call.key.type = DataType::int32;
      call.key.rank_count = kRanks;
      call.key.count = kBytes / sizeof(int32_t);
      call.input = call.output = new_memory().data();
      call.done = ended;
      runtime.start(std::move(call));
    }
  }

  std::span<std::byte> new_memory() {
    memory_.emplace_back(kBytes);
    return memory_.back();
  }

  // Lets each rank finalize as Communicator::finalize() does.
  bool all_ended() {
    bool all = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      SimRank& node = cluster_.node(rank);
      if (node.failed() || (node.runtime->leaving() && node.runtime->goodbye_done())) continue;
      all = false;
      if (node.runtime->leaving()) continue;
      if (node.runtime->operations().idle_but_local()) {
        node.begin_goodbye();
      } else if (cluster_.now() >= called_at_ + RankRuntime::kCloseCallsAfter && !closed_[rank]) {
        closed_[rank] = true;
        node.runtime->close_calls();
        node.wake();
      }
    }
    return all;
  }

  Random random_;
  std::vector<Calls> calls_;
  std::deque<std::vector<std::byte>> memory_;
  std::array<bool, kRanks> closed_{};
  TimeNs called_at_ = 0;
  Cluster cluster_;  // last: its end may still write to the memory
};

TEST(Finalize, EndsSoonWhicheverCallsWait) {
  int unmatched = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Job job(seed);
    EXPECT_TRUE(job.run()) << "seed " << seed << ": a rank waits for ever";
    job.expect_right_ends();
    unmatched += job.calls_match() ? 0 : 1;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(unmatched, 30);
  EXPECT_LT(unmatched, 70);
}

}  // namespace
}  // namespace r2ccl::sim
