// Communicators made from others: by color and key, and as copies.
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kCount = 5000;

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

int rank_in(r2cclComm_t comm) {
  int rank = -1;
  check(r2cclCommUserRank(comm, &rank), "rank");
  return rank;
}

int size_of(r2cclComm_t comm) {
  int size = -1;
  check(r2cclCommCount(comm, &size), "size");
  return size;
}

// Reduces over `comm`. Returns the sum over its ranks of 10^(the rank's number in the job).
int32_t census(r2cclComm_t comm, int rank) {
  int32_t number = 1;
  for (int i = 0; i < rank; ++i) number *= 10;
  std::vector<int32_t> data(kCount, number);
  check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclInt32, r2cclSum, comm, nullptr),
        "census");
  for (const int32_t each : data) {
    if (each != data[0]) throw Broken("the elements differ");
  }
  return data[0];
}

TEST(Split, GroupsByColorAndOrdersByKeyAndThenByRank) {
  Job job(5);
  job.run({[](Comm& comm) {
    // Ranks 0, 2, 3 have the color 4 and the keys 7, 7, -1; rank 1 has color 0; rank 4 has none.
    constexpr std::array<int, 5> kColors = {4, 0, 4, 4, R2CCL_SPLIT_NOCOLOR};
    constexpr std::array<int, 5> kKeys = {7, 0, 7, -1, 0};
    constexpr std::array<int, 5> kRanks = {1, 0, 2, 0, -1};
    const auto self = static_cast<size_t>(comm.rank());
    auto child = reinterpret_cast<r2cclComm_t>(uintptr_t{1});
    check(r2cclCommSplit(comm.handle(), kColors[self], kKeys[self], &child, nullptr), "split");
    if (comm.rank() == 4) {
      EXPECT_EQ(child, nullptr);
    } else {
      EXPECT_EQ(rank_in(child), kRanks[self]);
      EXPECT_EQ(size_of(child), comm.rank() == 1 ? 1 : 3);
      EXPECT_EQ(census(child, comm.rank()), comm.rank() == 1 ? 10 : 1101);
      check(r2cclCommDestroy(child), "destroy the child");
    }
    EXPECT_EQ(census(comm.handle(), comm.rank()), 11111) << "the parent goes on";
    check(comm.destroy(), "destroy");
  }});
}

// One rank returns from Dup before another, and its wrong call must not fail the Dup of that one.
TEST(Dup, SucceedsOnASlowRankWhenTheCallsOfFasterOnesDiffer) {
  Job job(4);
  job.run({[](Comm& comm) {
    for (int round = 0; round < 100; ++round) {
      r2cclComm_t copy = nullptr;
      check(r2cclCommDup(comm.handle(), &copy, nullptr), "dup");
      std::vector<int32_t> data(kCount);
      const size_t count = comm.rank() == 1 ? kCount / 2 : kCount;
      EXPECT_EQ(
          r2cclAllReduce(data.data(), data.data(), count, r2cclInt32, r2cclSum, copy, nullptr),
          r2cclInvalidUsage);
      check(r2cclCommDestroy(copy), "destroy the copy");
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Split, OfAChildOutlivesItsParents) {
  Job job(4);
  job.run({[](Comm& comm) {
    r2cclComm_t half = nullptr;
    r2cclComm_t pair = nullptr;
    check(r2cclCommSplit(comm.handle(), comm.rank() / 3, -comm.rank(), &half, nullptr), "split");
    if (comm.rank() < 3) {
      // The ranks 2, 1, 0 of the parent are 0, 1, 2 here.
      EXPECT_EQ(rank_in(half), 2 - comm.rank());
      check(r2cclCommSplit(half, rank_in(half) == 1 ? 1 : 0, 0, &pair, nullptr), "split a child");
    }
    check(r2cclCommDestroy(half), "destroy the child");
    check(comm.destroy(), "destroy");
    if (pair == nullptr) return;
    EXPECT_EQ(census(pair, comm.rank()), comm.rank() == 1 ? 10 : 101);
    check(r2cclCommDestroy(pair), "destroy the grandchild");
  }});
}

TEST(Split, MakesACopyWhoseCallsDoNotMatchTheOriginals) {
  Job job(3);
  job.run({[](Comm& comm) {
    r2cclComm_t copy = nullptr;
    r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
    config.cutoff_ms = 60'000;
    check(r2cclCommDup(comm.handle(), &copy, &config), "dup");
    EXPECT_EQ(rank_in(copy), comm.rank());
    EXPECT_EQ(size_of(copy), comm.ranks());
    // The ranks start their calls on the two communicators in different orders.
    Buffer first(kCount, {comm.rank(), comm.rank(), 1});
    Buffer second(kCount, {comm.rank(), comm.rank(), 2});
    std::array<r2cclRequest_t, 2> requests{};
    for (const int turn : {0, 1}) {
      const bool original = (turn == 0) == (comm.rank() == 1);
      Buffer& data = original ? first : second;
      check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclInt32, r2cclSum,
                           original ? comm.handle() : copy, &requests[original ? 0 : 1]),
            "call");
    }
    check(r2cclRequestWaitAll(2, requests.data(), kPatienceMs), "wait");
    first.expect({0, 2, 1}, "the original's");
    second.expect({0, 2, 2}, "the copy's");
    check(r2cclCommDestroy(copy), "destroy the copy");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Split, LeavesOutstandingOperationsOfTheParentAlone) {
  Job job(2);
  job.run({[](Comm& comm) {
    const int peer = 1 - comm.rank();
    Operation sum = Operation::all_reduce(comm, 3, 1 << 20);
    Operation received = Operation::receive(comm, 4, kCount, peer);
    r2cclComm_t copy = nullptr;
    check(r2cclCommDup(comm.handle(), &copy, nullptr), "dup");
    EXPECT_EQ(census(copy, comm.rank()), 11);
    Operation::send(comm, 4, kCount, peer).finish();
    received.finish();
    sum.finish();
    check(r2cclCommDestroy(copy), "destroy the copy");
    check(comm.destroy(), "destroy");
  }});
}

// The report's id is a hash of the job's public identity.
TEST(Split, GivesEachChildAnIdentityOfItsOwn) {
  Job job(2);
  job.run({[](Comm& comm) {
    std::array<r2cclComm_t, 2> copies{};
    std::array<std::string, 3> names;
    for (r2cclComm_t& copy : copies) check(r2cclCommDup(comm.handle(), &copy, nullptr), "dup");
    for (size_t i = 0; i < 3; ++i) {
      std::string text(64 * 1024, '\0');
      size_t bytes = text.size();
      check(r2cclCommReport(i < 2 ? copies[i] : comm.handle(), text.data(), &bytes), "report");
      names[i] = text.substr(text.find("\"comm\""), 26);
      EXPECT_NE(text.find("\"authenticated\":true"), std::string::npos);
    }
    EXPECT_NE(names[0], names[1]);
    EXPECT_NE(names[0], names[2]);
    for (r2cclComm_t& copy : copies) check(r2cclCommDestroy(copy), "destroy the copy");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Split, FailsOnAllRanksWhenOneHasAWrongArgument) {
  Job job(3);
  job.run({[](Comm& comm) {
    r2cclConfig_t bad = R2CCL_CONFIG_INITIALIZER;
    bad.cutoff_ms = -5;
    for (int way = 0; way < 3; ++way) {
      const bool wrong = comm.rank() == 1;
      auto child = reinterpret_cast<r2cclComm_t>(uintptr_t{1});
      const r2cclResult_t result =
          r2cclCommSplit(comm.handle(), wrong && way == 0 ? -2 : 0, 0,
                         wrong && way == 1 ? nullptr : &child, wrong && way == 2 ? &bad : nullptr);
      EXPECT_EQ(result, wrong ? r2cclInvalidArgument : r2cclRemoteError);
      const std::array<std::string, 3> words = {"color is -2", "newcomm is NULL", "cutoff_ms"};
      EXPECT_TRUE(said(wrong ? words[static_cast<size_t>(way)] : "rank 1 called r2cclCommSplit"))
          << r2cclGetLastError(nullptr);
      EXPECT_TRUE(child == nullptr || (wrong && way == 1));
    }
    EXPECT_EQ(census(comm.handle(), comm.rank()), 111) << "the parent goes on";
    check(comm.destroy(), "destroy");
  }});
}

// Rank 1 makes another call where the others split.
TEST(Split, FailsOnAllRanksWhenOneMakesAnotherCall) {
  constexpr int kRanks = 3;
  using Call = std::function<r2cclResult_t(Comm&)>;
  std::vector<int64_t> same(size_t{kRanks} * 7, 1);
  const std::vector<std::pair<std::string, Call>> calls = {
      {"AllReduce", [&](Comm& comm) { return r2cclBarrier(comm.handle(), nullptr); }},
      {"r2cclCommDup",
       [&](Comm& comm) {
         r2cclComm_t copy = nullptr;
         return r2cclCommDup(comm.handle(), &copy, nullptr);
       }},
      // The same shape as the exchange of the split.
      {"AllReduce of int64", [&](Comm& comm) {
         return r2cclAllReduce(same.data(), same.data(), same.size(), r2cclInt64, r2cclSum,
                               comm.handle(), nullptr);
       }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    Job job(kRanks);
    job.run({[&](Comm& comm) {
      if (comm.rank() == 1) {
        (void)call(comm);
        job.wait_for("the error", [&] { return comm.async_error() != r2cclSuccess; });
        EXPECT_EQ(comm.async_error(), r2cclInvalidUsage) << r2cclGetLastError(comm.handle());
      } else {
        r2cclComm_t child = nullptr;
        EXPECT_EQ(r2cclCommSplit(comm.handle(), 0, 0, &child, nullptr), r2cclInvalidUsage);
        EXPECT_EQ(child, nullptr);
        EXPECT_TRUE(said("the ranks' calls do not match")) << r2cclGetLastError(nullptr);
        EXPECT_TRUE(said(name)) << r2cclGetLastError(nullptr);
      }
      check(comm.destroy(), "destroy");
    }});
  }
}

// Rank 2 of three is lost before it calls.
TEST(Split, FailsSoonWhenARankAborts) {
  Job job(3);
  job.run({[](Comm& comm) {
    const auto begin = std::chrono::steady_clock::now();
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      comm.abort();
    } else {
      r2cclComm_t child = nullptr;
      EXPECT_EQ(r2cclCommSplit(comm.handle(), 0, 0, &child, nullptr), r2cclRemoteError);
      EXPECT_TRUE(said("rank 2 ")) << r2cclGetLastError(nullptr);
      EXPECT_EQ(child, nullptr);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    }
    check(comm.destroy(), "destroy");
  }});
}

// Rank 1 waits at the rendezvous of its color, where rank 2 does not arrive.
TEST(Split, FailsSoonWhenARankIsLostBeforeTheRendezvous) {
  Job job(3);
  std::atomic<bool> has_child{false};
  job.run({[&](Comm& comm) {
    r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
    r2cclComm_t child = nullptr;
    // No interface has this name, so rank 2 has its error when it opens its NICs.
    if (comm.rank() == 2) config.ifname = "=none";
    const auto begin = std::chrono::steady_clock::now();
    const r2cclResult_t result =
        r2cclCommSplit(comm.handle(), comm.rank() == 0 ? 0 : 1, 0, &child, &config);
    EXPECT_EQ(result == r2cclSuccess, comm.rank() == 0) << r2cclGetLastError(nullptr);
    if (comm.rank() == 0) has_child = true;
    if (comm.rank() == 2) {
      EXPECT_TRUE(said("=none")) << r2cclGetLastError(nullptr);
      // The abort would fail rank 0 as well, if it still were in its call.
      job.wait_for("child of rank 0", [&] { return has_child.load(); });
      comm.abort();
    }
    if (comm.rank() == 1) {
      EXPECT_EQ(result, r2cclRemoteError);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    }
    if (child != nullptr) check(r2cclCommDestroy(child), "destroy the child");
    (void)comm.destroy();  // rank 2 may abort in the middle of it
  }});
}

TEST(Split, IsRefusedInsideAGroup) {
  Job job(2);
  job.run({[](Comm& comm) {
    r2cclComm_t child = nullptr;
    check(r2cclGroupStart(), "start");
    EXPECT_EQ(r2cclCommSplit(comm.handle(), 0, 0, &child, nullptr), r2cclInvalidUsage);
    EXPECT_EQ(r2cclCommDup(comm.handle(), &child, nullptr), r2cclInvalidUsage);
    check(r2cclGroupEnd(), "end");
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
