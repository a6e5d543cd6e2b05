// Makes communicators over the links of a simulated job of many ranks, for bench/communicators.py:
//   simulated_communicators RANKS NICS
// Prints one line of JSON about the start of the first communicator and about one more.
//
// A further communicator is made as by r2cclCommDup: the ranks exchange their arguments by an
// AllReduce of the first one, and each joins when it has the result. "join_bytes" is the median of
// the bytes that a rank's join takes from the heap, "idle_bytes" the mean of all ranks once they
// are idle again. "start_bytes" is the mean too, with the bytes of the simulated network.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "positive_number.h"
#include "sim/cluster/cluster.h"
#include "testing/heap_bytes.h"

namespace r2ccl::sim {
namespace {

constexpr uint64_t kRateBytesPerS = 1'250'000'000;  // 10 Gbit/s
constexpr TimeNs kLimit = 60 * kSecond;             // simulated
constexpr size_t kDupWords = 7;  // that a rank tells the others (src/api/split.cc)
constexpr int kCommunicators = 8;
constexpr int kWarmup = 4;  // until the links' queues have their sizes
constexpr uint64_t kFirstContext = 1000;

double to_ms(TimeNs time) {
  return static_cast<double>(time) / 1e6;
}

class Job {
 public:
  Job(int ranks, int nics) : before_(heap_bytes()), cluster_(options(ranks, nics)) {
    nodes_.resize(static_cast<size_t>(ranks));
  }

  // Runs the start of the first communicator.
  bool start() {
    const TimeNs began = cluster_.now();
    if (!cluster_.connect()) return false;
    connected_in_ = cluster_.now() - began;
    for (int rank = 0; rank < cluster_.size(); ++rank) cluster_.node(rank).runtime->measure_costs();
    const bool agreed =
        run_until([](SimRank& rank, Node&) { return rank.runtime->costs_agreed(); });
    start_bytes_ = mean(heap_bytes() - before_);
    started_in_ = cluster_.now() - began;
    return agreed;
  }

  // Makes communicators until there are so many. Each reduces once.
  bool make(int communicators) {
    for (int i = 0; i < kWarmup; ++i) {
      if (!reduce(0, kDupWords * nodes_.size(), {})) return false;
    }
    connections_[0] = connections();
    for (int number = 1; number < communicators; ++number) {
      if (!make_one(number) || !reduce(number, kDupWords * nodes_.size(), {})) return false;
    }
    connections_[1] = connections();
    return true;
  }

  void print() const {
    std::printf(
        "{\"ranks\": %zu, \"join_bytes\": %lld, \"idle_bytes\": %lld, \"made_ms\": %.3f, "
        "\"connections\": %zu, \"connections_of_8\": %zu, \"start_bytes\": %lld, "
        "\"connected_ms\": %.3f, \"start_ms\": %.3f}\n",
        nodes_.size(), static_cast<long long>(join_bytes_), static_cast<long long>(idle_bytes_),
        to_ms(made_in_), connections_[0], connections_[1], static_cast<long long>(start_bytes_),
        to_ms(connected_in_), to_ms(started_in_));
  }

 private:
  struct Node {
    std::vector<int64_t> words;
    bool done = false;  // its reduction
    bool joined = false;
    int64_t bytes = 0;  // that its join took
  };

  static ClusterOptions options(int ranks, int nics) {
    ClusterOptions options;
    options.hosts = ranks;
    options.nics = nics;
    options.rate_bytes_per_s = kRateBytesPerS;
    options.turns_per_check = 0;
    return options;
  }
  int64_t mean(int64_t bytes) const { return bytes / static_cast<int64_t>(nodes_.size()); }
  size_t connections() { return cluster_.fabric().flows().size(); }

  bool run_until(const std::function<bool(SimRank&, Node&)>& done) {
    size_t checked = 0;  // ranks of which it holds
    cluster_.wake_all();
    const auto all = [&] {
      while (checked < nodes_.size() &&
             done(cluster_.node(static_cast<int>(checked)), nodes_[checked])) {
        ++checked;
      }
      return checked == nodes_.size();
    };
    return cluster_.world().run_until(all, cluster_.now() + kLimit);
  }

  // Each rank calls then(rank) in the turns after its end.
  bool reduce(int communicator, size_t words, const std::function<void(int)>& then) {
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      Node& node = nodes_[static_cast<size_t>(rank)];
      node.words.assign(words, 1);
      node.done = false;
      Operation call;
      call.key.collective = Collective::all_reduce;
      call.key.type = DataType::int64;
      call.key.op = ReduceOp::sum;
      call.key.rank_count = cluster_.size();
      call.key.count = words;
      call.input = call.output = reinterpret_cast<std::byte*>(node.words.data());
      call.done = [&node](const Status& status) { node.done = status.ok(); };
      cluster_.node(rank).in_turn = [this, rank, &node, then] {
        if (node.done && then) then(rank);
      };
      cluster_.node(rank).communicator(communicator).start(std::move(call));
    }
    const bool done =
        run_until([&](SimRank&, Node& node) { return node.done && (!then || node.joined); });
    for (int rank = 0; rank < cluster_.size(); ++rank) cluster_.node(rank).in_turn = nullptr;
    return done;
  }

  void join(int rank, int number) {
    Node& node = nodes_[static_cast<size_t>(rank)];
    if (std::exchange(node.joined, true)) return;
    const int64_t before = heap_bytes();
    SimRank& simulated = cluster_.node(rank);
    RankOptions options;
    options.self = Rank(rank);
    options.rank_count = cluster_.size();
    std::vector<Rank> peers;
    for (int peer = 0; peer < cluster_.size(); ++peer) peers.emplace_back(peer);
    simulated.further.push_back(std::make_unique<RankRuntime>(simulated.runtime->shared_job(),
                                                              std::move(options), observer_));
    const ContextId context(kFirstContext + static_cast<uint64_t>(number));
    node.joined = simulated.further.back()->join(context, std::move(peers)).ok();
    node.bytes = heap_bytes() - before;
  }

  bool make_one(int number) {
    for (Node& node : nodes_) node.joined = false;
    cluster_.world().run_for(kSecond);
    const int64_t before = heap_bytes();
    const TimeNs began = cluster_.now();
    if (!reduce(0, kDupWords * nodes_.size(), [&](int rank) { join(rank, number); })) return false;
    made_in_ = std::max(made_in_, cluster_.now() - began);
    cluster_.world().run_for(kSecond);
    idle_bytes_ = std::max(idle_bytes_, mean(heap_bytes() - before));
    std::vector<int64_t> bytes;
    for (const Node& node : nodes_) bytes.push_back(node.bytes);
    std::ranges::sort(bytes);
    join_bytes_ = std::max(join_bytes_, bytes[bytes.size() / 2]);
    return true;
  }

  const int64_t before_;
  RankObserver observer_;
  Cluster cluster_;
  std::vector<Node> nodes_;
  int64_t start_bytes_ = 0;
  TimeNs connected_in_ = 0;
  TimeNs started_in_ = 0;
  // The most that a communicator took.
  int64_t join_bytes_ = 0;
  int64_t idle_bytes_ = 0;
  TimeNs made_in_ = 0;
  size_t connections_[2] = {};
};

int run(int ranks, int nics) {
  Job job(ranks, nics);
  if (!job.start() || !job.make(kCommunicators)) {
    std::fprintf(stderr, "simulated_communicators: the ranks do not come to an end\n");
    return 1;
  }
  job.print();
  return 0;
}

}  // namespace
}  // namespace r2ccl::sim

int main(int argc, char** argv) {
  int ranks = 0;
  int nics = 0;
  if (argc != 3 || !r2ccl::parse_positive(argv[1], &ranks) ||
      !r2ccl::parse_positive(argv[2], &nics)) {
    std::fprintf(stderr, "usage: simulated_communicators RANKS NICS\n");
    return 2;
  }
  return r2ccl::sim::run(ranks, nics);
}
