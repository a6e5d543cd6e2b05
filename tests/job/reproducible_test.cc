// Reproducible mode through the C API: the sums of communicators that set it, inherit it or turn it
// off, with and without a fault.
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kCount = 50'000;

// Summands of three ranks that nearly cancel each other, so that the sum depends on the order.
double value_of(int rank, size_t element) {
  const auto draw = static_cast<uint32_t>(element * 2654435761U);
  const double small = 1.0 + static_cast<double>(draw >> 8 & 0xffff) / 0x1p16;
  const double large = std::ldexp(small, 12) + 1.0 / 3;
  const int turn = (rank + static_cast<int>(element % 3)) % 3;
  return turn == 0 ? large : turn == 1 ? -large : small / 7;
}

template <typename T>
T sum_in_rank_order(int ranks, size_t element) {
  T sum = static_cast<T>(value_of(0, element));
  for (int rank = 1; rank < ranks; ++rank) sum += static_cast<T>(value_of(rank, element));
  return sum;
}

// Returns how many results of an AllReduce have other bits than the sum in rank order.
template <typename T>
size_t differing(r2cclComm_t comm, r2cclDataType_t type) {
  int rank = 0;
  int ranks = 0;
  check(r2cclCommUserRank(comm, &rank), "rank");
  check(r2cclCommCount(comm, &ranks), "count");
  std::vector<T> data;
  for (size_t i = 0; i < kCount; ++i) data.push_back(static_cast<T>(value_of(rank, i)));
  check(r2cclAllReduce(data.data(), data.data(), kCount, type, r2cclSum, comm, nullptr), "sum");
  size_t count = 0;
  for (size_t i = 0; i < kCount; ++i) count += data[i] == sum_in_rank_order<T>(ranks, i) ? 0U : 1U;
  return count;
}

r2cclComm_t dup(r2cclComm_t comm, int reproducible) {
  r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
  config.reproducible = reproducible;
  r2cclComm_t copy = nullptr;
  check(r2cclCommDup(comm, &copy, reproducible == 0 ? nullptr : &config), "dup");
  return copy;
}

TEST(Reproducible, IsSetInheritedAndTurnedOffByTheConfig) {
  Job job(3, "ring");
  job.run({[](Comm& comm) {
    EXPECT_GT(differing<float>(comm.handle(), r2cclFloat32), 0U) << "the order does not matter";
    const r2cclComm_t on = dup(comm.handle(), 1);
    EXPECT_EQ(differing<float>(on, r2cclFloat32), 0U);
    EXPECT_EQ(differing<double>(on, r2cclFloat64), 0U);
    const r2cclComm_t inherited = dup(on, 0);
    EXPECT_EQ(differing<float>(inherited, r2cclFloat32), 0U);
    const r2cclComm_t off = dup(inherited, -1);
    EXPECT_GT(differing<float>(off, r2cclFloat32), 0U);
    for (const r2cclComm_t each : {on, inherited, off}) check(r2cclCommDestroy(each), "destroy");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Reproducible, HoldsWhenANicDies) {
  Job job(3);
  Rounds rounds;
  job.run({[&rounds](Comm& comm) {
            const r2cclComm_t on = dup(comm.handle(), 1);
            for (int round = 0; rounds.enter(round); ++round) {
              ASSERT_EQ(differing<float>(on, r2cclFloat32), 0U) << "round " << round;
            }
            check(r2cclCommDestroy(on), "destroy");
            check(comm.destroy(), "destroy");
          }},
          [&] {
            job.wait_for("second round", [&] { return rounds.newest() >= 2; });
            job.fault(nic(1, 0), "down");
            const int broken = rounds.newest();
            job.wait_for("rounds without the NIC", [&] { return rounds.newest() > broken + 3; });
            rounds.stop();
          });
}

TEST(Reproducible, MustBeSetOnAllRanksAlike) {
  Job job(3);
  job.run({[](Comm& comm) {
    r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
    config.reproducible = comm.rank() == 1 ? 1 : -1;
    r2cclComm_t copy = nullptr;
    EXPECT_NE(r2cclCommDup(comm.handle(), &copy, &config), r2cclSuccess);
    const std::string said = r2cclGetLastError(nullptr);
    EXPECT_NE(said.find("R2CCL_REPRODUCIBLE"), std::string::npos) << said;
    EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
