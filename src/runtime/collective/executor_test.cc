#include "runtime/collective/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "testing/fake_network.h"

namespace r2ccl {
namespace {

constexpr ChannelId kChannel{7};
constexpr std::array kReductionAlgorithms{
    Algorithm::ring,         Algorithm::halving_doubling, Algorithm::recursive_doubling,
    Algorithm::hierarchical, Algorithm::direct,           Algorithm::nested,
    Algorithm::split,        Algorithm::recursive_split,  Algorithm::leaf,
    Algorithm::packed};

// Returns hosts of up to three ranks for the hierarchical algorithm, none for the others.
HostGroups hosts_for(Algorithm algorithm, int32_t ranks) {
  std::vector<uint32_t> host_of;
  for (int32_t rank = 0; rank < ranks; ++rank) host_of.push_back(static_cast<uint32_t>(rank / 3));
  return algorithm == Algorithm::hierarchical ? HostGroups(host_of) : HostGroups();
}

// Returns a view in which the first host has lost half of its bandwidth and every third one a
// quarter.
View view_for(const PlanKey& key) {
  const auto hosts =
      key.hosts.empty() ? static_cast<size_t>(key.rank_count) : key.hosts.hosts().size();
  std::vector<HostRates> rates(hosts, HostRates(4));
  for (size_t host = 0; host < hosts; host += 3) rates[host][0] = {0, 0};
  rates[0][1] = {0, 0};
  return View::of(rates).value();
}

// The executors of all ranks over one fake network.
class Job {
 public:
  Job(int32_t rank_count, uint64_t seed, size_t staging_slots = 8) : network(rank_count, seed) {
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      executors.push_back(std::make_unique<Executor>(Rank(rank), kChannel,
                                                     network.ports_of(Rank(rank)), staging_slots));
    }
  }
  int32_t size() const { return static_cast<int32_t>(executors.size()); }

  FakeNetwork network;
  std::vector<std::unique_ptr<Executor>> executors;
};

std::function<void(const Status&)> into(std::optional<Status>& result) {
  return [&result](const Status& status) {
    EXPECT_FALSE(result.has_value()) << "done twice";
    result = status;
  };
}

// One collective of type T: the buffers of all ranks and the result.
template <typename T>
struct Trial {
  PlanKey key;
  std::vector<std::vector<T>> inputs;
  std::vector<std::vector<T>> outputs;
  std::vector<std::optional<Status>> results;

  // Runs in place where `in_place(rank)`: then the input lies in the output.
  template <typename Value, typename InPlace>
  Trial(const PlanKey& plan_key, Value value, InPlace in_place)
      : key(plan_key),
        inputs(static_cast<size_t>(key.rank_count)),
        outputs(inputs.size()),
        results(inputs.size()),
        in_place_(inputs.size()) {
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      in_place_[rank] = in_place(rank);
      outputs[rank].assign(key.count, T{});
      std::vector<T>& source = in_place_[rank] ? outputs[rank] : inputs[rank];
      source.resize(key.count);
      for (size_t i = 0; i < key.count; ++i) source[i] = value(rank, i);
    }
  }

  void start(Job& job) {
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      const auto& input = in_place_[rank] ? outputs[rank] : inputs[rank];
      job.executors[rank]->start({key, reinterpret_cast<const std::byte*>(input.data()),
                                  reinterpret_cast<std::byte*>(outputs[rank].data()),
                                  into(results[rank])});
    }
  }

  void expect_ok() const {
    for (const auto& result : results) {
      ASSERT_TRUE(result.has_value());
      EXPECT_TRUE(result->ok()) << result->message();
    }
  }

 private:
  std::vector<char> in_place_;
};

template <typename T>
constexpr DataType type_of() {
  if constexpr (std::is_same_v<T, int32_t>) return DataType::int32;
  if constexpr (std::is_same_v<T, int64_t>) return DataType::int64;
  if constexpr (std::is_same_v<T, float>) return DataType::float32;
  return DataType::float64;
}

// Small integers, also as floats, so that any order of additions gives the same exact sum.
template <typename T>
T value(size_t rank, size_t i) {
  return static_cast<T>(static_cast<int>((rank * 7919 + i * 104729) % 2001) - 1000);
}

template <typename T>
T expected(ReduceOp op, size_t ranks, size_t i) {
  T result = value<T>(0, i);
  for (size_t rank = 1; rank < ranks; ++rank) {
    const T next = value<T>(rank, i);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result = result + next;
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      default:
        ADD_FAILURE() << to_string(op);
    }
  }
  return op == ReduceOp::avg ? static_cast<T>(result / static_cast<T>(ranks)) : result;
}

template <typename T>
void expect_all_reduce(Job& job, Algorithm algorithm, ReduceOp op, uint64_t count) {
  PlanKey key;
  key.algorithm = algorithm;
  key.type = type_of<T>();
  key.op = op;
  key.rank_count = job.size();
  key.hosts = hosts_for(algorithm, job.size());
  key.count = count;
  key.view = view_for(key);
  // In-place and other ranks must work together.
  Trial<T> trial(key, value<T>, [](size_t rank) { return rank % 3 == 1; });
  trial.start(job);
  job.network.run();
  trial.expect_ok();
  std::vector<T> wanted(count);
  for (size_t i = 0; i < count; ++i) {
    wanted[i] = expected<T>(op, static_cast<size_t>(job.size()), i);
  }
  for (const auto& output : trial.outputs) {
    ASSERT_EQ(output, wanted) << "p " << job.size() << " count " << count << " algorithm "
                              << static_cast<int>(algorithm) << " op " << static_cast<int>(op);
  }
}

std::vector<uint64_t> interesting_counts(uint64_t ranks) {
  return {0, 1, ranks - 1, ranks + 1, 5 * ranks + 3};
}

TEST(Executor, AllReducesEveryTypeOperationAndCountOnAnyNumberOfRanks) {
  for (int32_t ranks = 1; ranks <= 16; ++ranks) {
    Job job(ranks, static_cast<uint64_t>(ranks));
    for (const Algorithm algorithm : kReductionAlgorithms) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::avg}) {
        for (const uint64_t count : interesting_counts(static_cast<uint64_t>(ranks))) {
          expect_all_reduce<int32_t>(job, algorithm, op, count);
          expect_all_reduce<int64_t>(job, algorithm, op, count);
          expect_all_reduce<float>(job, algorithm, op, count);
          expect_all_reduce<double>(job, algorithm, op, count);
        }
      }
    }
  }
}

TEST(Executor, ReducesVectorsOfManySegmentsInAnyOrderOfEvents) {
  for (const int32_t ranks : {2, 4, 5}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Job job(ranks, seed);
      // About 9 segments a block in the ring, 5 messages a round in halving-doubling.
      const uint64_t count = 40000 * static_cast<uint64_t>(ranks) + seed;
      expect_all_reduce<float>(job, Algorithm::ring, ReduceOp::sum, count);
      expect_all_reduce<float>(job, Algorithm::halving_doubling, ReduceOp::sum, 300000 + seed);
      expect_all_reduce<float>(job, Algorithm::hierarchical, ReduceOp::sum, 600000 + seed);
      expect_all_reduce<float>(job, Algorithm::nested, ReduceOp::sum, 600000 + seed);
      expect_all_reduce<float>(job, Algorithm::recursive_split, ReduceOp::sum, 300000 + seed);
    }
  }
}

TEST(Executor, NeedsOnlyOneStagingSlot) {
  for (const int32_t ranks : {2, 3, 4, 7, 16}) {
    Job job(ranks, 11, 1);
    const uint64_t count = 16384 * static_cast<uint64_t>(ranks) + 1;  // 4 segments in each block
    expect_all_reduce<int32_t>(job, Algorithm::ring, ReduceOp::sum, count);
    expect_all_reduce<int32_t>(job, Algorithm::halving_doubling, ReduceOp::sum, count);
    expect_all_reduce<int32_t>(job, Algorithm::hierarchical, ReduceOp::sum, 600000);
    expect_all_reduce<int32_t>(job, Algorithm::nested, ReduceOp::sum, 600000);
    expect_all_reduce<int32_t>(job, Algorithm::direct, ReduceOp::sum, 600000);
    expect_all_reduce<int32_t>(job, Algorithm::leaf, ReduceOp::sum, count);
  }
}

TEST(Executor, GivesTheSameBitsOnEveryRankInAnyOrderOfEvents) {
  for (const Algorithm algorithm : kReductionAlgorithms) {
    std::vector<float> first;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Job job(6, seed);
      PlanKey key;
      key.algorithm = algorithm;
      key.rank_count = 6;
      key.hosts = hosts_for(algorithm, 6);
      key.count = 5000;
      // Thirds of very different size: any other order of additions rounds differently.
      const auto rough = [](size_t rank, size_t i) {
        return std::ldexp(1.0f / 3.0f + static_cast<float>(i), static_cast<int>(rank * 5 % 23));
      };
      Trial<float> trial(key, rough, [&](size_t rank) { return (rank + seed) % 2 == 0; });
      trial.start(job);
      job.network.run();
      trial.expect_ok();
      if (first.empty()) first = trial.outputs[0];
      for (const auto& output : trial.outputs) {
        ASSERT_EQ(std::memcmp(output.data(), first.data(), sizeof(float) * first.size()), 0);
      }
    }
  }
}

// The left operand's NaN wins, so operands in another order would show.
TEST(Executor, GivesTheSameNaNOnEveryRank) {
  for (const Algorithm algorithm : kReductionAlgorithms) {
    for (const int32_t ranks : {2, 4, 5}) {
      Job job(ranks, 1);
      PlanKey key;
      key.algorithm = algorithm;
      key.op = ReduceOp::max;
      key.rank_count = ranks;
      key.hosts = hosts_for(algorithm, ranks);
      key.count = 40;
      const auto nan_of = [](size_t rank, size_t) {
        return std::bit_cast<float>(0x7fc00000u + static_cast<uint32_t>(rank));
      };
      Trial<float> trial(key, nan_of, [](size_t rank) { return rank % 2 == 0; });
      trial.start(job);
      job.network.run();
      trial.expect_ok();
      for (const auto& output : trial.outputs) {
        ASSERT_EQ(std::memcmp(output.data(), trial.outputs[0].data(), sizeof(float) * key.count),
                  0);
      }
    }
  }
}

TEST(Executor, BroadcastsFromEveryRootBySegmentsAndByTree) {
  for (int32_t ranks = 1; ranks <= 16; ++ranks) {
    Job job(ranks, 3);
    for (int32_t root = 0; root < ranks; root += 3) {
      for (const Algorithm algorithm : kReductionAlgorithms) {
        for (const uint64_t count : {0, 1, 17, 20000}) {
          PlanKey key;
          key.collective = Collective::broadcast;
          key.algorithm = algorithm;
          key.type = DataType::int32;
          key.rank_count = ranks;
          key.hosts = hosts_for(algorithm, ranks);
          key.root = Rank(root);
          key.count = count;
          Trial<int32_t> trial(key, value<int32_t>, [](size_t rank) { return rank % 2 == 0; });
          const auto wanted = root % 2 == 0 ? trial.outputs[static_cast<size_t>(root)]
                                            : trial.inputs[static_cast<size_t>(root)];
          trial.start(job);
          job.network.run();
          trial.expect_ok();
          for (const auto& output : trial.outputs) ASSERT_EQ(output, wanted);
        }
      }
    }
  }
}

Operation barrier_call(int32_t ranks, std::optional<Status>& result) {
  Operation call;
  call.key.collective = Collective::barrier;
  call.key.rank_count = ranks;
  call.done = into(result);
  return call;
}

TEST(Executor, LetsNoRankOutOfABarrierBeforeTheLastOneCalls) {
  for (int32_t ranks = 2; ranks <= 16; ++ranks) {
    Job job(ranks, 5);
    std::vector<std::optional<Status>> results(static_cast<size_t>(ranks));
    for (int32_t rank = 1; rank < ranks; ++rank) {
      const auto at = static_cast<size_t>(rank);
      job.executors[at]->start(barrier_call(ranks, results[at]));
    }
    job.network.run();
    for (const auto& result : results) ASSERT_FALSE(result.has_value());
    job.executors[0]->start(barrier_call(ranks, results[0]));
    job.network.run();
    for (const auto& result : results) ASSERT_TRUE(result.has_value() && result->ok());
  }
}

TEST(Executor, RunsQueuedCollectivesInOrder) {
  Job job(4, 9);
  std::vector<std::unique_ptr<Trial<int32_t>>> trials;
  for (uint64_t i = 0; i < 20; ++i) {
    PlanKey key;
    key.type = DataType::int32;
    key.rank_count = 4;
    key.count = i % 3 == 0 ? 0 : 100 * i;
    trials.push_back(std::make_unique<Trial<int32_t>>(key, value<int32_t>,
                                                      [](size_t rank) { return rank == 2; }));
    trials.back()->start(job);
  }
  job.network.run();
  for (const auto& trial : trials) {
    trial->expect_ok();
    for (size_t i = 0; i < trial->key.count; ++i) {
      ASSERT_EQ(trial->outputs[3][i], expected<int32_t>(ReduceOp::sum, 4, i));
    }
  }
  for (const auto& executor : job.executors) EXPECT_TRUE(executor->idle());
}

TEST(Executor, LetsACompletionStartTheNextCollective) {
  Job job(1, 0);
  std::vector<int32_t> data{1, 2, 3};
  int runs = 0;
  std::function<void(const Status&)> again = [&](const Status& status) {
    ASSERT_TRUE(status.ok());
    if (++runs == 1000) return;
    Operation call;
    call.key.count = data.size();
    call.input = call.output = reinterpret_cast<std::byte*>(data.data());
    call.done = again;
    job.executors[0]->start(std::move(call));
  };
  again(Status::ok_status());
  EXPECT_EQ(runs, 1000);
}

TEST(Executor, CancelEndsEverythingAndTouchesNoBufferAfterwards) {
  for (uint64_t steps = 0; steps < 60; steps += 7) {
    Job job(4, steps);
    PlanKey key;
    key.type = DataType::int32;
    key.rank_count = 4;
    key.count = 100000;
    Trial<int32_t> running(key, value<int32_t>, [](size_t) { return false; });
    Trial<int32_t> queued(key, value<int32_t>, [](size_t) { return true; });
    running.start(job);
    queued.start(job);
    for (uint64_t i = 0; i < steps; ++i) job.network.step();
    const Status why(Code::aborted, "the test aborts");
    for (auto& executor : job.executors) executor->cancel(why);
    const auto outputs = running.outputs;
    job.network.run();
    EXPECT_EQ(outputs, running.outputs);
    for (const auto& result : running.results) EXPECT_EQ(result, why);
    for (const auto& result : queued.results) EXPECT_EQ(result, why);
    std::optional<Status> late;
    job.executors[0]->start(barrier_call(4, late));
    EXPECT_EQ(late, why);
  }
}

TEST(Executor, FailsWithTheNamedPeerWhenCallsDiffer) {
  std::vector<int32_t> a(10), b(10);
  std::optional<Status> at_0, at_1;
  Job job(2, 0);
  Operation call;
  call.key.type = DataType::int32;
  call.key.rank_count = 2;
  call.key.count = 10;
  call.input = call.output = reinterpret_cast<std::byte*>(a.data());
  call.done = into(at_0);
  job.executors[0]->start(Operation(call));
  call.key.op = ReduceOp::max;
  call.input = call.output = reinterpret_cast<std::byte*>(b.data());
  call.done = into(at_1);
  job.executors[1]->start(Operation(call));
  job.network.run();
  const std::optional<Status>& seen = at_0 ? at_0 : at_1;
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->code(), Code::invalid_usage);
  EXPECT_NE(seen->message().find("with rank"), std::string::npos);
}

TEST(Executor, CountsCallsOfNoElements) {
  for (const Collective collective : {Collective::broadcast, Collective::all_reduce}) {
    std::vector<int32_t> a(10), b(10);
    std::optional<Status> at_0, nothing, at_1;
    Job job(2, 0);
    Operation call;
    call.key.collective = collective;
    call.key.type = DataType::int32;
    call.key.rank_count = 2;
    call.key.count = 10;
    call.input = call.output = reinterpret_cast<std::byte*>(a.data());
    call.done = into(at_0);
    job.executors[0]->start(Operation(call));
    call.key.count = 0;
    call.done = into(nothing);
    job.executors[1]->start(Operation(call));
    call.key.count = 10;
    call.input = call.output = reinterpret_cast<std::byte*>(b.data());
    call.done = into(at_1);
    job.executors[1]->start(Operation(call));
    job.network.run();
    ASSERT_TRUE(at_0 || at_1);
    EXPECT_EQ((at_0 && !at_0->ok() ? at_0 : at_1)->code(), Code::invalid_usage);
  }
}

TEST(Executor, NamesThePeersItWaitsFor) {
  Job job(4, 0);
  std::vector<float> data(64, 1.0f);
  std::optional<Status> result;
  Operation call;
  call.key.rank_count = 4;
  call.key.algorithm = Algorithm::ring;
  call.key.count = data.size();
  call.input = call.output = reinterpret_cast<std::byte*>(data.data());
  call.done = into(result);
  job.executors[1]->start(Operation(call));
  job.network.run();
  EXPECT_EQ(job.executors[1]->waits_on(), (std::vector<Rank>{Rank(0), Rank(2)}));
  EXPECT_TRUE(job.executors[0]->waits_on().empty());
  job.executors[1]->cancel(Status(Code::aborted, "end of test"));
}

TEST(Executor, AbandonEndsAllCallsAndMovesNothingAnyMore) {
  Job job(2, 1);
  std::vector<int32_t> values(100, 1);
  std::vector<std::optional<Status>> ended(3);
  for (auto& result : ended) {
    Operation call;
    call.key.collective = Collective::all_reduce;
    call.key.type = DataType::int32;
    call.key.rank_count = 2;
    call.key.count = values.size();
    call.input = call.output = reinterpret_cast<std::byte*>(values.data());
    call.done = into(result);
    job.executors[0]->start(std::move(call));
  }
  job.executors[0]->abandon(Status::out_of_memory());
  for (const auto& result : ended) EXPECT_EQ(result, Status::out_of_memory());
  EXPECT_TRUE(job.executors[0]->idle());
}

}  // namespace
}  // namespace r2ccl
