// The time of plans on an ideal fabric: each host sends one message at a time at full rate, and the
// receiver can use it one latency later. Between ranks of one host each rank does so through
// memory. A bubble in a plan shows here without any network.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "plan/cost_model.h"
#include "plan/plan.h"

namespace r2ccl {
namespace {

struct Fabric {
  double bytes_per_s = 120e6;
  double latency_s = 0.3e-3;
  double memory_bytes_per_s = 2e9;
  double memory_latency_s = 20e-6;
};

// Returns the costs that the ranks of a job measure on the fabric. All ranks of a host share its
// wire to the other hosts.
PlanCosts costs_of(const Fabric& fabric, const HostGroups& hosts) {
  const auto in_ns = [](double seconds) { return static_cast<uint64_t>(seconds * 1e9); };
  const auto domain = [&](double latency_s, double bytes_per_s, uint64_t sharers) {
    const uint64_t hop = in_ns(latency_s);
    const uint64_t kib = in_ns(1024 / bytes_per_s);
    return DomainCosts{.hop_ns = hop,
                       .message_ns = 0,
                       .kib_ns = sharers * kib,
                       .fan_kib_ns = sharers * kib,
                       .leader_hop_ns = hop,
                       .leader_message_ns = 0,
                       .leader_kib_ns = kib};
  };
  return {.memory = domain(fabric.memory_latency_s, fabric.memory_bytes_per_s, 1),
          .network = domain(fabric.latency_s, fabric.bytes_per_s, hosts.largest())};
}

class IdealRun {
 public:
  IdealRun(const PlanKey& key, const Fabric& fabric) : key_(key), fabric_(fabric) {
    key_.costs = costs_of(fabric, key.hosts);
    const std::vector<std::vector<Rank>>& groups = key.hosts.hosts();
    for (int32_t rank = 0; rank < key.rank_count; ++rank) {
      RankState state;
      const auto has_rank = [&](const auto& group) {
        return std::ranges::find(group, Rank(rank)) != group.end();
      };
      state.host =
          key.hosts.empty()
              ? static_cast<size_t>(rank)
              : static_cast<size_t>(std::ranges::find_if(groups, has_rank) - groups.begin());
      state.plan = make_plan(key_, Rank(rank));
      state.dependents.resize(state.plan.steps.size());
      for (uint32_t i = 0; i < state.plan.steps.size(); ++i) {
        const Step& step = state.plan.steps[i];
        const bool receives =
            step.kind == StepKind::receive || step.kind == StepKind::receive_reduce;
        state.pending.push_back(step.after.size() + (receives ? 1 : 0));
        for (const uint32_t before : step.after) state.dependents[before].push_back(i);
        if (receives) state.receives[step.peer.value()].push_back(i);
      }
      ranks_.push_back(std::move(state));
    }
    wires_.resize(2 * ranks_.size());
  }

  // Returns the seconds until every rank is done.
  double run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const uint32_t step : ready_at_start(ranks_[rank])) is_ready(rank, step);
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.what();
    }
    for (const RankState& rank : ranks_) EXPECT_EQ(rank.complete, rank.pending.size());
    return now_;
  }

 private:
  struct RankState {
    RankPlan plan;
    std::vector<size_t> pending;
    std::vector<std::vector<uint32_t>> dependents;
    std::map<int32_t, std::vector<uint32_t>> receives;  // by peer, in order
    std::map<int32_t, size_t> arrived;                  // by peer
    size_t host = 0;
    size_t complete = 0;
  };
  // The NICs of a host, or the memory of a rank.
  struct Wire {
    using Send = std::pair<uint32_t, size_t>;  // a step, and its rank
    std::priority_queue<Send, std::vector<Send>, std::greater<>> ready;
    bool busy = false;
  };
  struct Event {
    double at;
    std::function<void()> what;
    friend bool operator>(const Event& a, const Event& b) { return a.at > b.at; }
  };

  void after(double delay, std::function<void()> what) {
    events_.push({now_ + delay, std::move(what)});
  }

  void ready_to_send(size_t rank, uint32_t index) {
    const auto peer = static_cast<size_t>(ranks_[rank].plan.steps[index].peer.value());
    const size_t host = ranks_[rank].host;
    const bool in_memory = ranks_[peer].host == host;
    const size_t wire = in_memory ? ranks_.size() + rank : host;
    wires_[wire].ready.push({index, rank});
    send_next(wire);
  }

  void send_next(size_t which) {
    Wire& wire = wires_[which];
    if (wire.busy || wire.ready.empty()) return;
    const auto [index, rank] = wire.ready.top();
    wire.ready.pop();
    wire.busy = true;
    const Step& step = ranks_[rank].plan.steps[index];
    const auto bytes = static_cast<double>(step.source.count * size_of(key_.type));
    const auto peer = static_cast<size_t>(step.peer.value());
    const bool in_memory = which >= ranks_.size();
    const double rate = in_memory ? fabric_.memory_bytes_per_s : fabric_.bytes_per_s;
    const double latency = in_memory ? fabric_.memory_latency_s : fabric_.latency_s;
    after(bytes / rate, [=, this, from = rank, step_index = index] {
      wires_[which].busy = false;
      after(latency, [=, this] { arrive(peer, static_cast<int32_t>(from)); });
      // The link copies a small send, which is complete at once.
      const bool copied = step.source.count * size_of(key_.type) <= limits::kBufferedSendBytesMax;
      after(copied ? 0 : 2 * latency, [=, this] { complete(from, step_index); });
      send_next(which);
    });
  }

  void arrive(size_t rank, int32_t from) {
    RankState& state = ranks_[rank];
    const uint32_t receive = state.receives[from][state.arrived[from]++];
    if (--state.pending[receive] == 0) complete(rank, receive);
  }

  void complete(size_t rank, uint32_t index) {
    RankState& state = ranks_[rank];
    ++state.complete;
    for (const uint32_t dependent : state.dependents[index]) {
      if (--state.pending[dependent] == 0) is_ready(rank, dependent);
    }
  }

  static std::vector<uint32_t> ready_at_start(const RankState& state) {
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < state.pending.size(); ++i) {
      if (state.pending[i] == 0) ready.push_back(i);
    }
    return ready;
  }

  void is_ready(size_t rank, uint32_t step) {
    if (ranks_[rank].plan.steps[step].kind == StepKind::send) {
      ready_to_send(rank, step);
    } else {
      complete(rank, step);
    }
  }

  PlanKey key_;
  const Fabric fabric_;
  double now_ = 0;
  std::vector<RankState> ranks_;
  std::vector<Wire> wires_;  // of the hosts, then of the ranks
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

PlanKey in_place(Collective collective, int32_t ranks, uint64_t bytes) {
  PlanKey key;
  key.collective = collective;
  key.rank_count = ranks;
  key.count = bytes / sizeof(float);
  key.in_place = true;
  return key;
}

// Returns the time of the line alone: 2 (p - 1) / p of the vector through each rank.
double line_time(const PlanKey& key, const Fabric& fabric) {
  const double p = key.rank_count;
  const auto bytes = static_cast<double>(key.count * size_of(key.type));
  return 2 * (p - 1) / p * bytes / fabric.bytes_per_s;
}

// ring.cc: 2 (p - 1) T and once the latency; one more for the last acknowledgement.
TEST(PlanTime, TheRingHidesTheLatencyOfAllHopsButTheLast) {
  const Fabric fabric;
  for (const int32_t ranks : {2, 4, 8, 16}) {
    for (const uint64_t bytes_per_rank : {128 << 10, 256 << 10, 1 << 20, 4 << 20}) {
      const PlanKey key =
          in_place(Collective::all_reduce, ranks, bytes_per_rank * static_cast<uint64_t>(ranks));
      const double expected = line_time(key, fabric) + 2 * fabric.latency_s;
      EXPECT_NEAR(IdealRun(key, fabric).run(), expected, 1e-3 * expected)
          << ranks << " ranks, " << bytes_per_rank << " bytes a rank";
    }
  }
}

TEST(PlanTime, FourRanksReachTheRequiredShareOfTheLine) {
  const Fabric fabric;
  const auto share = [&](uint64_t bytes) {
    const PlanKey key = in_place(Collective::all_reduce, 4, bytes);
    return line_time(key, fabric) / IdealRun(key, fabric).run();
  };
  EXPECT_GT(share(1 << 20), 0.95);
  EXPECT_GT(share(16 << 20), 0.995);
  EXPECT_GT(share(64 << 20), 0.998);
}

// 2 log2 p latencies.
TEST(PlanTime, HalvingDoublingPaysTheLatencyTwiceLogPTimes) {
  const Fabric fabric;
  PlanKey key = in_place(Collective::all_reduce, 4, 16 << 10);
  key.algorithm = Algorithm::halving_doubling;
  EXPECT_NEAR(IdealRun(key, fabric).run(), line_time(key, fabric) + 4 * fabric.latency_s, 1e-5);
}

// halving_doubling.cc: T instead of 1.5 T.
TEST(PlanTime, HalvingDoublingOverlapsItsRounds) {
  const Fabric fabric;
  PlanKey key = in_place(Collective::all_reduce, 4, 128 << 10);
  key.algorithm = Algorithm::halving_doubling;
  const double vector_s = line_time(key, fabric) / 1.5;
  EXPECT_NEAR(IdealRun(key, fabric).run(), vector_s + 4 * fabric.latency_s, 1e-5);
}

// Returns host groups of `each` neighbouring ranks.
HostGroups hosts_of_each(int32_t ranks, int32_t each) {
  std::vector<uint32_t> host_of;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    host_of.push_back(static_cast<uint32_t>(rank / each));
  }
  return HostGroups(host_of);
}

// Requires a key without algorithm. Expects that the chosen one takes at most `factor` of the time
// of the fastest.
void expect_near_best(PlanKey key, const Fabric& fabric, double factor) {
  key.costs = costs_of(fabric, key.hosts);
  const Algorithm chosen = choose_algorithm(key);
  std::string all;
  double least = 1e9;
  double time = 0;
  for (const Algorithm each : candidates_of(key)) {
    key.algorithm = each;
    const double run = IdealRun(key, fabric).run();
    least = std::min(least, run);
    if (each == chosen) time = run;
    all += " algorithm " + std::to_string(static_cast<int>(each)) + " " +
           std::to_string(run * 1e3) + " ms, predicted " +
           std::to_string(static_cast<double>(predicted_ns(key, each)) / 1e6) + ";";
  }
  EXPECT_LE(time, factor * least) << "collective " << static_cast<int>(key.collective) << " of "
                                  << key.count << " elements among " << key.rank_count
                                  << " ranks on " << key.hosts.hosts().size() << " hosts: chosen "
                                  << static_cast<int>(chosen) << "," << all;
}

// The model counts each message of a flat plan as one through the NICs, also between ranks of one
// host. So it takes a hierarchical plan where a flat one would be a little faster on this fabric,
// where ranks share no cores.
TEST(PlanTime, TheChosenAlgorithmIsNearlyTheFastest) {
  for (const double latency_s : {0.05e-3, 0.3e-3}) {
    const Fabric fabric{.latency_s = latency_s};
    for (const Collective collective : {Collective::all_reduce, Collective::broadcast,
                                        Collective::all_gather, Collective::reduce_scatter}) {
      const bool has_blocks =
          collective == Collective::all_gather || collective == Collective::reduce_scatter;
      for (int32_t ranks = 3; ranks <= 16; ++ranks) {
        for (uint64_t bytes = 1 << 10; bytes <= 4 << 20; bytes *= 4) {
          const auto p = static_cast<uint64_t>(ranks);
          PlanKey key = in_place(collective, ranks, has_blocks ? bytes / p : bytes);
          if (key.count == 0) continue;
          for (const int32_t each : {1, 2, 4, 16}) {
            key.hosts = hosts_of_each(ranks, each);
            expect_near_best(key, fabric, each == 1 ? 1.2 : 1.5);
          }
        }
      }
    }
  }
}

// hierarchy.cc: the NICs of a host carry 2 (H - 1) / H of the vector, and the work in memory delays
// them only for the first piece and the last one. Four ranks a host.
TEST(PlanTime, AHierarchyKeepsTheNicsBusy) {
  const Fabric fabric;
  const auto share = [&](uint32_t hosts, uint64_t bytes) {
    PlanKey key = in_place(Collective::all_reduce, static_cast<int32_t>(4 * hosts), bytes);
    key.hosts = hosts_of_each(key.rank_count, 4);
    const double line = 2.0 * (hosts - 1) / hosts * static_cast<double>(bytes);
    return line / fabric.bytes_per_s / IdealRun(key, fabric).run();
  };
  EXPECT_GT(share(2, 1 << 20), 0.8);
  EXPECT_GT(share(2, 16 << 20), 0.98);
  EXPECT_GT(share(4, 16 << 20), 0.98);
  EXPECT_GT(share(4, 64 << 20), 0.99);
}

// broadcast.cc: the vector once, p - 2 segments of fill and p - 1 latencies (and the last
// acknowledgement).
TEST(PlanTime, TheChainBroadcastFillsInAFewSegments) {
  const Fabric fabric;
  const uint64_t bytes = 16 << 20;
  const PlanKey key = in_place(Collective::broadcast, 4, bytes);
  const double vector_s = static_cast<double>(bytes) / fabric.bytes_per_s;
  const double expected = vector_s * (1 + 2.0 / 128) + 4 * fabric.latency_s;
  EXPECT_NEAR(IdealRun(key, fabric).run(), expected, 1e-3 * expected);
}

}  // namespace
}  // namespace r2ccl
