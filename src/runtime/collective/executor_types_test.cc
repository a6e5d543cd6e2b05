// AllReduce by the executors of all ranks: every type with every reduction.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/reduction.h"
#include "runtime/collective/executor.h"
#include "testing/fake_network.h"

namespace r2ccl {
namespace {

// Small numbers, whose reductions are exact in every type.
template <DataType kType>
struct Numbers {
  using E = reference::Element<kType>;
  using Stored = typename E::Stored;
  ReduceOp op;

  static Stored stored(size_t number) { return E::stored(static_cast<typename E::Number>(number)); }
  Stored input(size_t rank, size_t i) const {
    return stored(op == ReduceOp::prod ? 1 + (rank + i) % 2 : (rank * 7 + i) % 8);
  }
  static Stored factor(size_t rank) { return stored(rank % 3 + 1); }
  Stored summand(size_t rank, size_t i) const {
    const Stored own = input(rank, i);
    return op == ReduceOp::premulsum ? reference::product<kType>(own, factor(rank)) : own;
  }
  Stored result(size_t ranks, size_t i) const {
    Stored all = summand(0, i);
    for (size_t rank = 1; rank < ranks; ++rank) {
      all = reference::reduced<kType>(op, all, summand(rank, i));
    }
    return op == ReduceOp::avg ? reference::divided<kType>(all, static_cast<int32_t>(ranks)) : all;
  }
};

struct Trial {
  Algorithm algorithm;
  ReduceOp op;
  size_t ranks;
  size_t count;

  // Up to three ranks share a host, if the algorithm is for that.
  PlanKey key(DataType type) const {
    PlanKey key;
    key.algorithm = algorithm;
    key.type = type;
    key.op = op;
    key.rank_count = static_cast<int32_t>(ranks);
    key.count = count;
    std::vector<uint32_t> host_of;
    for (size_t rank = 0; rank < ranks; ++rank) host_of.push_back(static_cast<uint32_t>(rank / 3));
    if (algorithm == Algorithm::hierarchical) key.hosts = HostGroups(host_of);
    return key;
  }
};

// Every third rank runs in place.
bool in_place(size_t rank) {
  return rank % 3 == 1;
}

template <DataType kType>
void run(const Trial& trial) {
  const Numbers<kType> numbers{trial.op};
  using Buffer = std::vector<typename Numbers<kType>::Stored>;
  FakeNetwork network(static_cast<int32_t>(trial.ranks), 1);
  std::vector<Buffer> inputs(trial.ranks, Buffer(trial.count)), outputs = inputs;
  std::vector<std::optional<Status>> ends(trial.ranks);
  std::vector<std::unique_ptr<Executor>> executors;
  for (size_t rank = 0; rank < trial.ranks; ++rank) {
    const Rank self(static_cast<int32_t>(rank));
    for (size_t i = 0; i < trial.count; ++i) inputs[rank][i] = numbers.input(rank, i);
    executors.push_back(std::make_unique<Executor>(self, ChannelId(7), network.ports_of(self), 8));
  }
  for (size_t rank = 0; rank < trial.ranks; ++rank) {
    Buffer& output = in_place(rank) ? inputs[rank] : outputs[rank];
    executors[rank]->start({trial.key(kType),
                            reinterpret_cast<const std::byte*>(inputs[rank].data()),
                            reinterpret_cast<std::byte*>(output.data()),
                            [&ends, rank](const Status& status) { ends[rank] = status; },
                            reference::scalar_of(numbers.factor(rank))});
  }
  network.run();
  for (size_t rank = 0; rank < trial.ranks; ++rank) {
    ASSERT_TRUE(ends[rank].has_value() && ends[rank]->ok());
    for (size_t i = 0; i < trial.count; ++i) {
      const auto got = in_place(rank) ? inputs[rank][i] : outputs[rank][i];
      ASSERT_EQ(got, numbers.result(trial.ranks, i))
          << to_string(trial.op) << " of " << to_string(kType) << ", rank " << rank << " of "
          << trial.ranks << ", element " << i << " of " << trial.count << ", algorithm "
          << static_cast<int>(trial.algorithm);
      if (!in_place(rank)) {
        ASSERT_EQ(inputs[rank][i], numbers.input(rank, i)) << "the input has changed";
      }
    }
  }
}

TEST(ExecutorTypes, EveryTypeIsReducedByEveryOperationThatItSupports) {
  for (const size_t ranks : {1, 2, 3, 5, 8}) {
    for (const DataType type : kDataTypes) {
      for (const ReduceOp op : kReduceOps) {
        if (!supports(type, op)) continue;
        for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling,
                                          Algorithm::recursive_doubling, Algorithm::hierarchical}) {
          for (const size_t count : {0, 1, 37}) {
            reference::with_type(type, [&](auto constant) {
              run<decltype(constant)::kValue>({algorithm, op, ranks, count});
            });
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Runs a Reduce or ReduceScatter out of place.
void run_pre_multiplied(Collective collective, Algorithm algorithm, size_t ranks) {
  const Numbers<DataType::int32> numbers{ReduceOp::premulsum};
  PlanKey key;
  key.collective = collective;
  key.algorithm = algorithm;
  key.type = DataType::int32;
  key.op = ReduceOp::premulsum;
  key.rank_count = static_cast<int32_t>(ranks);
  key.root = Rank(0);
  key.count = 37;
  const bool scatters = collective == Collective::reduce_scatter;
  const size_t vector = scatters ? key.count * ranks : key.count;
  FakeNetwork network(key.rank_count, 1);
  std::vector<std::vector<uint32_t>> inputs(ranks),
      outputs(ranks, std::vector<uint32_t>(key.count));
  std::vector<std::unique_ptr<Executor>> executors;
  size_t ended = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Rank self(static_cast<int32_t>(rank));
    for (size_t i = 0; i < vector; ++i) inputs[rank].push_back(numbers.input(rank, i));
    executors.push_back(std::make_unique<Executor>(self, ChannelId(7), network.ports_of(self), 8));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const bool has_output = scatters || rank == 0;
    executors[rank]->start(
        {key, reinterpret_cast<const std::byte*>(inputs[rank].data()),
         has_output ? reinterpret_cast<std::byte*>(outputs[rank].data()) : nullptr,
         [&ended](const Status& status) { ended += status.ok() ? 1 : 0; },
         reference::scalar_of(numbers.factor(rank))});
  }
  network.run();
  ASSERT_EQ(ended, ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < vector; ++i) ASSERT_EQ(inputs[rank][i], numbers.input(rank, i));
    for (size_t i = 0; i < key.count && (scatters || rank == 0); ++i) {
      const size_t element = scatters ? rank * key.count + i : i;
      ASSERT_EQ(outputs[rank][i], numbers.result(ranks, element)) << rank << " of " << ranks;
    }
  }
}

TEST(ExecutorTypes, APreMultipliedSumLeavesTheInputOfReduceAndReduceScatterAlone) {
  for (const size_t ranks : {1, 2, 3, 5, 8}) {
    for (const Algorithm algorithm :
         {Algorithm::ring, Algorithm::halving_doubling, Algorithm::recursive_doubling}) {
      run_pre_multiplied(Collective::reduce, algorithm, ranks);
      run_pre_multiplied(Collective::reduce_scatter, algorithm, ranks);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ExecutorTypes, APreMultipliedSumIsAnotherCallThanASum) {
  PlanKey sum, scaled;
  scaled.op = ReduceOp::premulsum;
  EXPECT_NE(plan_hash(sum), plan_hash(scaled));
}

}  // namespace
}  // namespace r2ccl
