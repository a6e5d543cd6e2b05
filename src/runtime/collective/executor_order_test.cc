// Reductions of floating-point elements by the executors of all ranks. In rank order they have the
// bits of a loop over the ranks, whatever the plan; otherwise their error has a bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/reduction.h"
#include "plan/holdings.h"
#include "runtime/collective/executor.h"
#include "testing/fake_network.h"

namespace r2ccl::order {
namespace {

// Summands of one element nearly cancel each other, so nearly every order has a sum of its own. A
// few are no numbers, or zeros of either sign.
float value_of(int32_t rank, uint64_t element) {
  const uint64_t draw = hash_of({static_cast<uint64_t>(rank), element});
  if (draw % 97 == 0) return std::bit_cast<float>(0x7fc00000U + static_cast<uint32_t>(rank));
  if (draw % 89 == 0) return draw % 2 == 0 ? 0.0f : -0.0f;
  const float mantissa = 1.0f + static_cast<float>(draw >> 32 & 0x7f) / 128;
  const float scale = std::ldexp(1.0f, static_cast<int>(draw >> 40 & 7) - 3);
  return (draw >> 50 & 1) == 0 ? mantissa * scale : -mantissa * scale;
}

template <DataType kType>
struct Inputs {
  using E = reference::Element<kType>;
  using Stored = typename E::Stored;
  ReduceOp op;

  // The low bits of wider types are all in use.
  static Stored input(int32_t rank, uint64_t element) {
    const auto number = static_cast<typename E::Number>(value_of(rank, element));
    return E::stored(is_half(kType) ? number : number / 3);
  }
  static Stored factor(int32_t rank) {
    return E::stored(static_cast<typename E::Number>(rank % 3 + 1) / 2);
  }
  Stored summand(int32_t rank, uint64_t element) const {
    const Stored own = input(rank, element);
    return op == ReduceOp::premulsum ? reference::product<kType>(own, factor(rank)) : own;
  }
  // Returns ((x0 + x1) + x2) + ...
  Stored result(int32_t ranks, uint64_t element) const {
    if (has_wide_form(kType, op)) return wide_result(ranks, element);
    Stored all = summand(0, element);
    for (int32_t rank = 1; rank < ranks; ++rank) {
      all = reference::reduced<kType>(op, all, summand(rank, element));
    }
    return op == ReduceOp::avg ? reference::divided<kType>(all, ranks) : all;
  }
  // Returns the same in float32, rounded once.
  Stored wide_result(int32_t ranks, uint64_t element) const {
    auto all = static_cast<float>(E::number(summand(0, element)));
    for (int32_t rank = 1; rank < ranks; ++rank) {
      const auto next = static_cast<float>(E::number(summand(rank, element)));
      all = op == ReduceOp::prod ? all * next : all + next;
    }
    if (op == ReduceOp::avg) all /= static_cast<float>(ranks);
    return reference::with_one_nan<kType>(static_cast<typename E::Number>(all));
  }
};

// Returns whether a rank runs in place; a Reduce only at its root.
bool is_in_place(const PlanKey& key, int32_t rank) {
  if (key.collective == Collective::reduce) return Rank(rank) == key.root && rank % 2 == 0;
  return rank % 3 == 1;
}

// The memory of one rank.
template <typename Stored>
struct RankMemory {
  std::vector<Stored> input;
  std::vector<Stored> output;  // out of place
  Overlay overlay;
  bool in_place = false;

  Stored* output_data() { return in_place ? input.data() + overlay.output_at : output.data(); }
};

// Runs the call. Returns the elements of all outputs, by rank.
template <DataType kType>
std::vector<std::vector<typename Inputs<kType>::Stored>> run(const PlanKey& key, uint64_t seed) {
  using Stored = typename Inputs<kType>::Stored;
  const auto ranks = static_cast<size_t>(key.rank_count);
  FakeNetwork network(key.rank_count, seed);
  std::vector<RankMemory<Stored>> memories(ranks);
  std::vector<std::unique_ptr<Executor>> executors;
  size_t ended = 0;
  for (int32_t r = 0; r < key.rank_count; ++r) {
    const Contents contents = contents_of(key, Rank(r));
    RankMemory<Stored>& memory = memories[static_cast<size_t>(r)];
    memory.overlay = contents.overlay;
    memory.in_place = is_in_place(key, r);
    memory.input.resize(contents.extents.input_count);
    memory.output.resize(contents.extents.output_count);
    for (const Holding& held : contents.input) {
      for (uint64_t i = 0; i < held.range.count; ++i) {
        memory.input[held.offset + i] = Inputs<kType>::input(r, held.range.begin + i);
      }
    }
    executors.push_back(
        std::make_unique<Executor>(Rank(r), ChannelId(7), network.ports_of(Rank(r)), 3));
  }
  for (size_t r = 0; r < ranks; ++r) {
    executors[r]->start({key, reinterpret_cast<const std::byte*>(memories[r].input.data()),
                         reinterpret_cast<std::byte*>(memories[r].output_data()),
                         [&ended](const Status& status) { ended += status.ok() ? 1U : 0U; },
                         reference::scalar_of(Inputs<kType>::factor(static_cast<int32_t>(r)))});
  }
  network.run();
  EXPECT_EQ(ended, ranks);
  std::vector<std::vector<Stored>> outputs;
  for (size_t r = 0; r < ranks; ++r) {
    const uint64_t count = contents_of(key, Rank(static_cast<int32_t>(r))).extents.output_count;
    outputs.emplace_back(memories[r].output_data(), memories[r].output_data() + count);
  }
  return outputs;
}

// Calls f(rank, element, result) for each result of the call.
template <DataType kType, typename F>
void for_each_result(const PlanKey& key, uint64_t seed, F f) {
  const auto outputs = run<kType>(key, seed);
  for (int32_t r = 0; r < key.rank_count; ++r) {
    for (const Holding& held : contents_of(key, Rank(r)).output) {
      for (uint64_t i = 0; i < held.range.count; ++i) {
        f(r, held.range.begin + i, outputs[static_cast<size_t>(r)][held.offset + i]);
      }
    }
  }
}

template <DataType kType>
void expect_rank_order(const PlanKey& key, uint64_t seed) {
  const Inputs<kType> inputs{key.op};
  std::map<uint64_t, typename Inputs<kType>::Stored> expected;
  uint64_t results = 0;
  uint64_t wrong = 0;
  for_each_result<kType>(key, seed, [&](int32_t, uint64_t element, auto result) {
    const auto [known, is_new] = expected.try_emplace(element);
    if (is_new) known->second = inputs.result(key.rank_count, element);
    ++results;
    wrong += result == known->second ? 0U : 1U;
  });
  ASSERT_GT(results, 0U);
  ASSERT_EQ(wrong, 0U) << "of " << results << ": " << to_string(key.op) << " of "
                       << to_string(kType) << ", collective " << static_cast<int>(key.collective)
                       << ", " << key.rank_count << " ranks, count " << key.count;
}

void expect_rank_order(const PlanKey& key, uint64_t seed) {
  reference::with_type(key.type, [&](auto constant) {
    if constexpr (!is_integer(decltype(constant)::kValue)) {
      expect_rank_order<decltype(constant)::kValue>(key, seed);
    }
  });
}

// Returns a call whose hosts, view, costs and asked algorithm follow from the seed.
PlanKey key_of(Collective collective, DataType type, int32_t ranks, uint64_t count, uint64_t seed) {
  PlanKey key;
  key.collective = collective;
  key.type = type;
  key.rank_count = ranks;
  key.root = Rank(ranks / 2);
  key.count = count;
  key.reproducible = true;
  key.algorithm = static_cast<Algorithm>(seed % 6);
  const auto each = static_cast<int32_t>(hash_of({seed, 1}) % 4 + 1);
  std::vector<uint32_t> host_of;
  for (int32_t r = 0; r < ranks; ++r) {
    host_of.push_back(static_cast<uint32_t>(seed % 2 == 0 ? r / each : r % each));
  }
  key.hosts = HostGroups(host_of);
  const size_t hosts = key.hosts.empty() ? static_cast<size_t>(ranks) : key.hosts.hosts().size();
  std::vector<HostRates> rates(hosts, HostRates(2));
  for (size_t host = 0; host < hosts && seed % 3 > 0; ++host) {
    rates[host][0].send = static_cast<uint32_t>(hash_of({seed, 2, host}) % kWholeNic);
  }
  key.view = View::of(std::move(rates)).value();
  key.costs.network.hop_ns = hash_of({seed, 3}) % 1'000'000;
  return key;
}

const std::vector<DataType> kFloats{DataType::float32, DataType::float64, DataType::float16,
                                    DataType::bfloat16};
const std::vector<Collective> kReductions{Collective::all_reduce, Collective::reduce,
                                          Collective::reduce_scatter};

TEST(ExecutorOrder, ReductionsHaveTheBitsOfALoopOverTheRanks) {
  for (int32_t ranks = 2; ranks <= 17; ++ranks) {
    for (const DataType type : kFloats) {
      for (const ReduceOp op : kReduceOps) {
        if (!supports(type, op)) continue;
        for (const Collective collective : kReductions) {
          const auto seed = hash_of({static_cast<uint64_t>(ranks), static_cast<uint64_t>(type),
                                     static_cast<uint64_t>(op), static_cast<uint64_t>(collective)});
          PlanKey key = key_of(collective, type, ranks, seed % 40 + 1, seed);
          key.op = op;
          expect_rank_order(key, seed);
          key = key_of(collective, type, ranks, seed % 900 + 8'200, seed + 1);
          key.op = op;
          if (ranks % 4 == 1) expect_rank_order(key, seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(ExecutorOrder, VectorsOfManySegmentsHaveThemToo) {
  for (const int32_t ranks : {2, 5}) {
    for (const DataType type : {DataType::float32, DataType::bfloat16}) {
      for (const Collective collective : kReductions) {
        expect_rank_order(key_of(collective, type, ranks, 120'000, 4), 1);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ExecutorOrder, UnequalBlocksHaveThemToo) {
  for (int32_t ranks = 2; ranks <= 9; ++ranks) {
    for (const DataType type : kFloats) {
      PlanKey key = key_of(Collective::reduce_scatter, type, ranks, 0, 5);
      for (int32_t rank = 0; rank < ranks; ++rank) {
        key.blocks.counts.push_back(static_cast<uint64_t>((rank * 7 + 1) % 5 * 300));
      }
      expect_rank_order(key, 1);
      if (HasFatalFailure()) return;
    }
  }
}

// --- the default mode ---------------------------------------------------------------------------

// Returns finite summands in all bits of a float32, which nearly cancel each other.
double exact_sum(const PlanKey& key, uint64_t element, double* magnitudes) {
  double sum = 0;
  *magnitudes = 0;
  for (int32_t rank = 0; rank < key.rank_count; ++rank) {
    const double x = std::bit_cast<float>(Inputs<DataType::float32>::input(rank, element));
    sum += x;
    *magnitudes += std::abs(x);
  }
  return sum;
}

// The bound holds for the addition of p numbers in any order (Higham, Accuracy and Stability of
// Numerical Algorithms, section 4.2). Another algorithm, which a change of the view or of the hosts
// brings, has other bits.
TEST(ExecutorOrder, SumsInAnyOrderHaveABoundedError) {
  constexpr double kRounding = 0x1p-24;
  for (const int32_t ranks : {3, 4, 8, 13}) {
    for (const Collective collective : kReductions) {
      std::map<uint64_t, std::set<uint32_t>> bits;  // by element
      for (uint64_t seed = 0; seed < 24; ++seed) {
        PlanKey key = key_of(collective, DataType::float32, ranks, 500, seed);
        key.reproducible = false;
        const double p = ranks - 1;
        for_each_result<DataType::float32>(
            key, seed, [&](int32_t rank, uint64_t element, uint32_t result) {
              double magnitudes = 0;
              const double exact = exact_sum(key, element, &magnitudes);
              if (std::isnan(exact)) return;
              const double error = std::abs(std::bit_cast<float>(result) - exact);
              ASSERT_LE(error, p * kRounding / (1 - p * kRounding) * magnitudes)
                  << "rank " << rank << " element " << element;
              bits[element].insert(result);
            });
        if (HasFatalFailure()) return;
      }
      const auto differing = std::ranges::count_if(
          bits, [](const auto& element) { return element.second.size() > 1; });
      EXPECT_GT(differing, 0) << "all orders gave the same bits";
    }
  }
}

}  // namespace
}  // namespace r2ccl::order
