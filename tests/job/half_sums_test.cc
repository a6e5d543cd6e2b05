// Sums of bfloat16 through the public header, compared with exact sums. Its words give the bounds.
#include <bit>
#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

using Halves = std::vector<uint16_t>;
constexpr double kHalf = 0x1p-8;      // the relative error of a rounding to bfloat16
constexpr double kFloat32 = 0x1p-24;  // to float32
constexpr size_t kBlock = 2000;

float number(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

// Requires a number that bfloat16 has.
uint16_t half(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

// One rank has 256, the others 1, which is half of the distance from 256 to the next number. Where
// each addition to 256 is rounded, all of them are lost.
float value(int rank, int ranks, size_t element) {
  return element % static_cast<size_t>(ranks) == static_cast<size_t>(rank) ? 256.0f : 1.0f;
}

// The factor of a pre-multiplied sum; all products are exact.
float factor(int rank) {
  return rank % 2 == 0 ? 0.5f : 1.0f;
}

Halves input_of(const Comm& comm, size_t count) {
  Halves input;
  for (size_t i = 0; i < count; ++i) input.push_back(half(value(comm.rank(), comm.ranks(), i)));
  return input;
}

// A reduction, and the number that makes its summands of the values.
struct Operation16 {
  r2cclRedOp_t op = r2cclSum;
  bool multiplies = false;

  // Throws Broken if a result is further from the exact one than so many roundings to bfloat16, and
  // one to float32 for each addition, can bring it.
  void expect(const Comm& comm, const Halves& results, size_t first, int roundings,
              const std::string& what) const {
    const int ranks = comm.ranks();
    const double divisor = op == r2cclAvg ? ranks : 1;
    const double relative = std::pow(1 + kHalf, roundings) * std::pow(1 + kFloat32, ranks) - 1;
    for (size_t i = 0; i < results.size(); ++i) {
      double exact = 0;  // all summands are positive
      for (int rank = 0; rank < ranks; ++rank) {
        exact += value(rank, ranks, first + i) * (multiplies ? factor(rank) : 1) / divisor;
      }
      if (std::abs(number(results[i]) - exact) <= relative * exact) continue;
      throw Broken(what + " of " + std::to_string(ranks) + " ranks: element " + std::to_string(i) +
                   " is " + std::to_string(number(results[i])) + " and not " +
                   std::to_string(exact));
    }
  }
};

std::vector<Operation16> operations(Comm& comm) {
  const uint16_t scalar = half(factor(comm.rank()));
  r2cclRedOp_t scaled = r2cclSum;
  check(r2cclRedOpCreatePreMulSum(&scaled, &scalar, r2cclBfloat16, r2cclScalarHostImmediate,
                                  comm.handle()),
        "create");
  return {{r2cclSum, false}, {r2cclAvg, false}, {scaled, true}};
}

// Whole results that all ranks must have alike.
class Common {
 public:
  void expect(const Halves& result, const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (first_.empty()) first_ = result;
    if (result != first_) throw Broken(what + ": ranks have different bits");
  }

 private:
  std::mutex mutex_;
  Halves first_;
};

Halves reduce_scatter(Comm& comm, r2cclRedOp_t op) {
  const Halves input = input_of(comm, kBlock * static_cast<size_t>(comm.ranks()));
  Halves output(kBlock);
  check(r2cclReduceScatter(input.data(), output.data(), kBlock, r2cclBfloat16, op, comm.handle(),
                           nullptr),
        "reduce-scatter");
  return output;
}

Halves all_reduce(Comm& comm, r2cclRedOp_t op, size_t count) {
  Halves data = input_of(comm, count);
  check(r2cclAllReduce(data.data(), data.data(), count, r2cclBfloat16, op, comm.handle(), nullptr),
        "all-reduce");
  return data;
}

// The most roundings to bfloat16 between an input and a result, by algorithm. One that a collective
// lacks leaves the choice to the measured costs, so that any may come.
struct Roundings {
  int all_reduce;
  int reduce;
  int reduce_scatter;
};
Roundings roundings_of(const std::string& algorithm, int ranks) {
  const int hops = std::bit_width(static_cast<unsigned>(ranks - 1));
  const int steps = ranks - 1;
  if (algorithm == "rd") return {hops, steps, hops};
  if (algorithm == "hd") return {steps, hops, steps};
  if (algorithm == "direct") return {steps, steps, 1};
  return {steps, steps, steps};
}

void expect_sums(Comm& comm, const Roundings& most, std::vector<Common>& common) {
  auto next = common.begin();
  for (const Operation16& each : operations(comm)) {
    for (const size_t count : {size_t{2000}, size_t{7001}}) {
      const Halves result = all_reduce(comm, each.op, count);
      each.expect(comm, result, 0, most.all_reduce, "AllReduce");
      next++->expect(result, "AllReduce");
    }
    const Halves input = input_of(comm, 7001);
    Halves output(comm.rank() == 1 ? input.size() : 0);
    check(r2cclReduce(input.data(), output.data(), input.size(), r2cclBfloat16, each.op, 1,
                      comm.handle(), nullptr),
          "reduce");
    each.expect(comm, output, 0, most.reduce, "Reduce");
    const size_t first = kBlock * static_cast<size_t>(comm.rank());
    each.expect(comm, reduce_scatter(comm, each.op), first, most.reduce_scatter, "ReduceScatter");
  }
}

TEST(HalfSums, AreWithinTheBoundsOfTheirRoundings) {
  for (const std::string algorithm : {"rd", "hd", "direct", "ring"}) {
    for (const int ranks : {2, 3, 5, 8, 9}) {
      SCOPED_TRACE(algorithm + " " + std::to_string(ranks));
      Job job(ranks, algorithm);
      std::vector<Common> common(6);
      job.run({[&](Comm& comm) {
        expect_sums(comm, roundings_of(algorithm, comm.ranks()), common);
        check(comm.destroy(), "destroy");
      }});
    }
  }
}

// A retransmission must neither add a value twice nor change the order of additions.
TEST(HalfSums, HaveTheSameBitsWhileNicsFail) {
  Job job(4, "direct");
  Rounds rounds;
  job.run({[&rounds](Comm& comm) {
            const Halves scattered = reduce_scatter(comm, r2cclSum);
            const Halves reduced = all_reduce(comm, r2cclAvg, 30'011);
            for (int round = 0; rounds.enter(round); ++round) {
              if (reduce_scatter(comm, r2cclSum) != scattered) throw Broken("ReduceScatter");
              if (all_reduce(comm, r2cclAvg, 30'011) != reduced) throw Broken("AllReduce");
            }
            check(comm.destroy(), "destroy");
          }},
          [&] {
            const auto wait = [&] {
              const int newest = rounds.newest();
              job.wait_for("rounds", [&] { return rounds.newest() > newest + 5; });
            };
            wait();
            for (const char* fault : {"down", "hole-rx"}) {
              job.fault(nic(1, 0), fault);
              job.wait_for("the fault",
                           [&] { return job.comm(1).report().any(nic(1, 0), "down"); });
              wait();
              job.fault(nic(1, 0), "");
              job.wait_for("the return", [&] { return job.comm(1).report().all(nic(1, 0), "up"); });
              wait();
            }
            rounds.stop();
          });
}

}  // namespace
}  // namespace job
