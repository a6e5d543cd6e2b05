// Sums of 16-bit elements by the executors of all ranks, compared with exact sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/reduction.h"
#include "plan/holdings.h"
#include "runtime/collective/executor.h"
#include "testing/fake_network.h"

namespace r2ccl::halves {
namespace {

constexpr double kFloat32 = 0x1p-24;  // the relative error of a rounding

struct Trial {
  Collective collective = Collective::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  ReduceOp op = ReduceOp::sum;
  int32_t ranks = 2;
  uint64_t count = 37;
  int32_t ranks_per_host = 1;

  PlanKey key(DataType type) const {
    PlanKey key;
    key.collective = collective;
    key.algorithm = algorithm;
    key.type = type;
    key.op = op;
    key.rank_count = ranks;
    key.root = Rank(ranks / 2);
    key.count = count;
    std::vector<uint32_t> host_of;
    for (int32_t r = 0; r < ranks; ++r)
      host_of.push_back(static_cast<uint32_t>(r / ranks_per_host));
    key.hosts = HostGroups(host_of);
    return key;
  }
  std::string name(DataType type) const {
    return std::string(to_string(op)) + " of " + to_string(type) + ", collective " +
           std::to_string(static_cast<int>(collective)) + ", algorithm " +
           std::to_string(static_cast<int>(algorithm)) + ", " + std::to_string(ranks) +
           " ranks, count " + std::to_string(count);
  }
};

int ceil_log2(int32_t n) {
  return std::bit_width(static_cast<uint32_t>(n - 1));
}

// Returns how often a value is rounded to the 16-bit type on its longest way into a result: at each
// send of a partial sum, and at the end.
int roundings(const Trial& trial, DataType type) {
  const Algorithm used = choose_algorithm(trial.key(type));
  const int32_t hosts = (trial.ranks + trial.ranks_per_host - 1) / trial.ranks_per_host;
  switch (used) {
    case Algorithm::direct:
      return 1;
    case Algorithm::hierarchical: {
      const uint64_t bytes = trial.count * size_of(type);
      return 1 + (bytes > 200'000 ? hosts - 1 : ceil_log2(hosts));
    }
    case Algorithm::ring:
      return trial.ranks - 1;
    default:
      return ceil_log2(trial.ranks);
  }
}

// The inputs of all ranks, as numbers that the type has.
class Inputs {
 public:
  virtual ~Inputs() = default;
  virtual float value(int32_t rank, uint64_t element) const = 0;
};

// One large number among small ones, each half of the distance between numbers of that size. Where
// they are added one by one and rounded, all of the small ones are lost.
class OneLarge : public Inputs {
 public:
  OneLarge(DataType type, int32_t ranks)
      : large_(type == DataType::float16 ? 2048.0f : 256.0f),
        ranks_(static_cast<uint64_t>(ranks)) {}
  float value(int32_t rank, uint64_t element) const override {
    return element % ranks_ == static_cast<uint64_t>(rank) ? large_ : 1.0f;
  }

 private:
  const float large_;
  const uint64_t ranks_;
};

class Random : public Inputs {
 public:
  float value(int32_t rank, uint64_t element) const override {
    const uint64_t bits = hash_of({element, static_cast<uint64_t>(rank)});
    return static_cast<float>(static_cast<int64_t>(bits)) * 0x1p-63f;  // from -1 to 1
  }
};

template <DataType kType>
class Reduced {
 public:
  using E = reference::Element<kType>;

  Reduced(const Trial& trial, const Inputs& inputs, uint64_t seed)
      : trial_(trial), inputs_(inputs) {
    const PlanKey key = trial.key(kType);
    FakeNetwork network(trial.ranks, seed);
    std::vector<std::unique_ptr<Executor>> executors;
    std::vector<std::vector<uint16_t>> in(static_cast<size_t>(trial.ranks));
    for (int32_t rank = 0; rank < trial.ranks; ++rank) {
      const Extents extents = extents_of(key, Rank(rank));
      auto& mine = in[static_cast<size_t>(rank)];
      for (uint64_t i = 0; i < extents.input_count; ++i) mine.push_back(stored(rank, i));
      outputs_.emplace_back(extents.output_count);
      executors.push_back(
          std::make_unique<Executor>(Rank(rank), ChannelId(7), network.ports_of(Rank(rank)), 8));
    }
    for (size_t rank = 0; rank < in.size(); ++rank) {
      executors[rank]->start({key, reinterpret_cast<const std::byte*>(in[rank].data()),
                              reinterpret_cast<std::byte*>(outputs_[rank].data()),
                              [this](const Status& status) { ended_ += status.ok() ? 1 : 0; },
                              reference::scalar_of(factor(static_cast<int32_t>(rank)))});
    }
    network.run();
  }

  // Returns the largest error, as a part of the bound for so many roundings to the 16-bit type. The
  // bound is about (roundings u + (p - 1) 2^-24) sum |x|; these are its terms of every order.
  double largest_error(int rounded) const {
    EXPECT_EQ(ended_, trial_.ranks);
    const double u = kType == DataType::float16 ? 0x1p-11 : 0x1p-8;
    const bool divides = trial_.op == ReduceOp::avg;
    const double relative =
        std::pow(1 + u, rounded) * std::pow(1 + kFloat32, trial_.ranks - (divides ? 0 : 1)) - 1;
    double largest = 0;
    for_each_result([&](uint64_t element, uint16_t result) {
      double exact = 0, magnitude = 0;
      for (int32_t rank = 0; rank < trial_.ranks; ++rank) {
        const double summand = E::number(this->summand(rank, element));
        exact += summand;
        magnitude += std::abs(summand);
      }
      if (divides) exact /= trial_.ranks, magnitude /= trial_.ranks;
      const double error = std::abs(double{E::number(result)} - exact);
      largest = std::max(largest, error / (relative * magnitude));
    });
    return largest;
  }

  bool all_ranks_agree() const {
    return trial_.collective != Collective::all_reduce ||
           std::ranges::all_of(outputs_, [&](const auto& each) { return each == outputs_[0]; });
  }

  const std::vector<std::vector<uint16_t>>& outputs() const { return outputs_; }

 private:
  uint16_t stored(int32_t rank, uint64_t element) const {
    return E::stored(inputs_.value(rank, element));
  }
  static uint16_t factor(int32_t rank) { return E::stored(static_cast<float>(rank % 3 + 1) / 2); }
  uint16_t summand(int32_t rank, uint64_t element) const {
    const uint16_t own = stored(rank, element);
    return trial_.op == ReduceOp::premulsum ? reference::product<kType>(own, factor(rank)) : own;
  }

  template <typename F>
  void for_each_result(F f) const {
    for (size_t rank = 0; rank < outputs_.size(); ++rank) {
      const Contents contents = contents_of(trial_.key(kType), Rank(static_cast<int32_t>(rank)));
      for (const Holding& held : contents.output) {
        for (uint64_t i = 0; i < held.range.count; ++i) {
          f(held.range.begin + i, outputs_[rank][held.offset + i]);
        }
      }
    }
  }

  const Trial trial_;
  const Inputs& inputs_;
  std::vector<std::vector<uint16_t>> outputs_;
  int32_t ended_ = 0;
};

template <typename TypeConstant>
class ExecutorHalfTest : public testing::Test {
 protected:
  static constexpr DataType kType = TypeConstant::value;

  static void expect_within_bound(const Trial& trial) {
    const OneLarge one_large(kType, trial.ranks);
    const Random random;
    for (const Inputs* inputs :
         {static_cast<const Inputs*>(&one_large), static_cast<const Inputs*>(&random)}) {
      const Reduced<kType> run(trial, *inputs, 1);
      EXPECT_LE(run.largest_error(roundings(trial, kType)), 1.0) << trial.name(kType);
      EXPECT_TRUE(run.all_ranks_agree()) << trial.name(kType);
      EXPECT_EQ(Reduced<kType>(trial, *inputs, 2).outputs(), run.outputs())
          << "the bits depend on the order of arrival: " << trial.name(kType);
    }
  }
};
using Halves = testing::Types<std::integral_constant<DataType, DataType::float16>,
                              std::integral_constant<DataType, DataType::bfloat16>>;
TYPED_TEST_SUITE(ExecutorHalfTest, Halves);

const std::vector<Trial> kForms{{Collective::all_reduce, Algorithm::ring},
                                {Collective::all_reduce, Algorithm::halving_doubling},
                                {Collective::all_reduce, Algorithm::recursive_doubling},
                                {Collective::reduce, Algorithm::ring},
                                {Collective::reduce, Algorithm::halving_doubling},
                                {Collective::reduce_scatter, Algorithm::ring},
                                {Collective::reduce_scatter, Algorithm::direct},
                                {Collective::reduce_scatter, Algorithm::recursive_doubling}};

TYPED_TEST(ExecutorHalfTest, AnErrorIsWithinTheBoundOfTheRoundingsOnTheWay) {
  for (Trial trial : kForms) {
    for (trial.ranks = 2; trial.ranks <= 9; ++trial.ranks) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::premulsum}) {
        trial.op = op;
        TestFixture::expect_within_bound(trial);
      }
    }
  }
}

TYPED_TEST(ExecutorHalfTest, ALeaderOfAHostRoundsTheSumOfItsRanksOnce) {
  for (const int32_t ranks_per_host : {3, 4, 9}) {
    for (int32_t ranks = 2; ranks <= 9; ++ranks) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::premulsum}) {
        TestFixture::expect_within_bound(
            {Collective::all_reduce, Algorithm::hierarchical, op, ranks, 37, ranks_per_host});
      }
    }
  }
}

// Several segments, and hierarchical plans with a ring among the hosts.
TYPED_TEST(ExecutorHalfTest, AnErrorOfALongVectorIsWithinTheBound) {
  for (Trial trial : {Trial{Collective::all_reduce, Algorithm::halving_doubling},
                      Trial{Collective::reduce, Algorithm::halving_doubling},
                      Trial{Collective::reduce_scatter, Algorithm::direct}}) {
    trial.ranks = 6;
    trial.count = trial.collective == Collective::reduce_scatter ? 25'000 : 140'000;
    TestFixture::expect_within_bound(trial);
  }
  TestFixture::expect_within_bound(
      {Collective::all_reduce, Algorithm::hierarchical, ReduceOp::sum, 6, 140'000, 3});
}

// The sum of the first two is beyond the range of float16; that of all is not.
TEST(ExecutorHalf, AnOwnerOfAllAdditionsOverflowsOnlyWithItsResult) {
  class Opposite : public Inputs {
    float value(int32_t rank, uint64_t) const override { return rank == 1 ? -60000.0f : 60000.0f; }
  };
  const Trial trial{Collective::reduce_scatter, Algorithm::direct, ReduceOp::sum, 3};
  const Opposite inputs;
  const Reduced<DataType::float16> run(trial, inputs, 1);
  for (const std::vector<uint16_t>& output : run.outputs()) {
    for (const uint16_t value : output) EXPECT_EQ(value, to_float16(60000.0f));
  }
}

}  // namespace
}  // namespace r2ccl::halves
