// Several communicators of the same ranks, each driven by a thread of its own.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;
constexpr size_t kLarge = 60 * 1003;
constexpr size_t kSmall = 517;
constexpr int kRoundsDuringFault = 3;

// Exchanges messages between all pairs of ranks.
void exchange(Comm& comm, Rounds& rounds) {
  for (int round = 0; rounds.enter(round); ++round) {
    // The values differ from the other communicator's.
    const uint32_t tag = 1'000'000 + static_cast<uint32_t>(round) * 2;
    std::vector<Operation> open;
    for (int step = 1; step < comm.ranks(); ++step) {
      const int to = (comm.rank() + step) % comm.ranks();
      const int from = (comm.rank() + comm.ranks() - step) % comm.ranks();
      open.push_back(Operation::send(comm, tag, kLarge, to));
      open.push_back(Operation::receive(comm, tag, kLarge, from));
      open.push_back(Operation::send(comm, tag + 1, kSmall, to));
      open.push_back(Operation::receive(comm, tag + 1, kSmall, from));
    }
    for (Operation& operation : open) operation.finish();
  }
  check(comm.destroy(), "destroy");
}

TEST(Communicators, OfTheSameRanksPassThroughFaultsSideBySide) {
  Job job(kRanks);
  std::vector<Rounds> rounds(2);
  const auto both = [&](int rank, const std::string& at, const std::string& state) {
    return job.comm(rank, 0).report().all(at, state) && job.comm(rank, 1).report().all(at, state);
  };
  const auto more_rounds = [&] {
    const std::vector<int> before = {rounds[0].newest(), rounds[1].newest()};
    job.wait_for("progress of both communicators", [&] {
      return rounds[0].newest() >= before[0] + kRoundsDuringFault &&
             rounds[1].newest() >= before[1] + kRoundsDuringFault;
    });
  };
  const RankBody collectives = [&](Comm& comm) { reduce_and_broadcast(comm, rounds[0]); };
  const RankBody pairs = [&](Comm& comm) { exchange(comm, rounds[1]); };
  job.run({collectives, pairs}, [&] {
    for (const std::string words : {"down", "hole", "hole-tx"}) {
      const int rank = words == "down" ? 0 : 1;
      const std::string at = nic(rank, words == "hole" ? 0 : 1);
      job.wait_for("start of " + at, [&] { return both(rank, at, "up"); });
      job.fault(at, words);
      job.wait_for("end of " + at, [&] { return both(rank, at, "down"); });
      more_rounds();
      job.fault(at, "");
      job.wait_for("return of " + at, [&] { return both(rank, at, "up"); });
    }
    more_rounds();
    for (Rounds& each : rounds) each.stop();
  });
}

size_t entries(const char* directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

// As many groups of a training job are.
TEST(Communicators, OfOneRankGiveBackTheirThreadsAndDescriptors) {
  const auto make_and_end = [] {
    r2cclUniqueId id;
    r2cclComm_t comm = nullptr;
    check(r2cclGetUniqueId(&id), "unique id");
    check(r2cclCommInitRank(&comm, 1, id, 0), "init");
    check(r2cclCommDestroy(comm), "destroy");
  };
  make_and_end();
  const size_t threads = entries("/proc/self/task");
  const size_t descriptors = entries("/proc/self/fd");
  constexpr size_t kTimes = 8;
  for (size_t i = 0; i < kTimes; ++i) make_and_end();
  // A thread that has ended may still be listed for a moment.
  for (int i = 0; i < 1000 && entries("/proc/self/task") >= threads + kTimes; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(entries("/proc/self/task"), threads + kTimes);
  EXPECT_LT(entries("/proc/self/fd"), descriptors + kTimes);
}

using Order = std::array<size_t, 3>;

// Uses three communicators; then each rank ends them one after the other, each in its own order.
void end_in_order(const std::vector<Order>& orders) {
  Job job(static_cast<int>(orders.size()));
  const RankBody does_nothing = [](Comm&) {};
  const RankBody uses_and_ends = [&](Comm& comm) {
    const Order& order = orders[static_cast<size_t>(comm.rank())];
    for (size_t body = 0; body < order.size(); ++body) {
      Operation::all_reduce(job.comm(comm.rank(), body), 1, kSmall).finish();
    }
    for (const size_t body : order) {
      check(job.comm(comm.rank(), body).destroy(), "destroy " + std::to_string(body));
    }
  };
  job.run({uses_and_ends, does_nothing, does_nothing});
}

TEST(Communicators, EndInAnyOrderOnEachRank) {
  // Without the rule the first pair takes R2CCL_CUTOFF_S, 300 s.
  const auto start = std::chrono::steady_clock::now();
  Order order = {0, 1, 2};
  do {
    end_in_order({{0, 1, 2}, order});
  } while (std::ranges::next_permutation(order).found);
  end_in_order({{0, 1, 2}, {1, 2, 0}, {2, 0, 1}});
  end_in_order({{0, 1, 2}, {2, 1, 0}, {1, 0, 2}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// The first rank ends a communicator before an operation of another one, the second rank after it.
TEST(Communicators, EndBeforeOrAfterAnOperationOfAnother) {
  Job job(2);
  const RankBody body = [&](Comm& comm) {
    const auto end = [&] { check(job.comm(comm.rank(), 1).destroy(), "destroy 1"); };
    if (comm.rank() == 0) end();
    Operation::all_reduce(comm, 1, kSmall).finish();
    if (comm.rank() == 1) end();
    check(comm.destroy(), "destroy 0");
  };
  const auto start = std::chrono::steady_clock::now();
  job.run({body, [](Comm&) {}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// The second rank does not wait in the operation, but asks again and again whether it is complete.
TEST(Communicators, EndBeforeAnOperationOfAnotherWhoseCallerAsks) {
  Job job(2);
  const RankBody body = [&](Comm& comm) {
    const auto end = [&] { check(job.comm(comm.rank(), 1).destroy(), "destroy 1"); };
    if (comm.rank() == 0) end();
    std::vector<int32_t> data(100);
    r2cclRequest_t request = nullptr;
    check(r2cclAllReduce(data.data(), data.data(), data.size(), r2cclInt32, r2cclSum, comm.handle(),
                         &request),
          "call");
    for (int done = 0; done == 0;) {
      check(r2cclRequestTest(&request, &done), "test");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (comm.rank() == 1) end();
    check(comm.destroy(), "destroy 0");
  };
  const auto start = std::chrono::steady_clock::now();
  job.run({body, [](Comm&) {}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace
}  // namespace job
