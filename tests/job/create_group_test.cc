// Communicators that exchange nothing when they are made.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "job.h"

namespace job {
namespace {

r2cclComm_t create(r2cclComm_t comm, const std::vector<int>& ranks, const char* name) {
  r2cclComm_t made = nullptr;
  check(r2cclCommCreateGroup(comm, ranks.data(), ranks.size(), name, &made, nullptr), name);
  return made;
}

r2cclResult_t try_create(r2cclComm_t comm, const std::vector<int>& ranks, const char* name,
                         const r2cclConfig_t* config = nullptr) {
  auto made = reinterpret_cast<r2cclComm_t>(uintptr_t{1});
  const r2cclResult_t result =
      r2cclCommCreateGroup(comm, ranks.data(), ranks.size(), name, &made, config);
  EXPECT_EQ(made, nullptr);
  return result;
}

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

TEST(CreateGroup, TakesItsMembersInTheOrderGiven) {
  Job job(4);
  job.run({[](Comm& comm) {
    const std::vector<int> members = {3, 0, 2};
    const auto place = std::ranges::find(members, comm.rank());
    if (place != members.end()) {
      r2cclComm_t made = create(comm.handle(), members, "three");
      int rank = -1;
      int count = -1;
      check(r2cclCommUserRank(made, &rank), "rank");
      check(r2cclCommCount(made, &count), "count");
      EXPECT_EQ(rank, place - members.begin());
      EXPECT_EQ(count, 3);
      expect_sum(made, comm.rank(), members);
      check(r2cclCommDestroy(made), "destroy");
    }
    check(comm.destroy(), "destroy");
  }});
}

// Each rank makes them in an order of its own, and those of one name one after another.
TEST(CreateGroup, NeedsNoCommonOrder) {
  Job job(3);
  job.run({[](Comm& comm) {
    std::vector<std::string> names = {"a", "b", "c"};
    std::ranges::rotate(names, names.begin() + comm.rank());
    for (int round = 0; round < 5; ++round) {
      std::vector<std::pair<std::string, r2cclComm_t>> made;
      for (const std::string& name : names) {
        made.emplace_back(name, create(comm.handle(), {0, 1, 2}, name.c_str()));
      }
      std::ranges::sort(made);
      for (const auto& each : made) expect_sum(each.second, comm.rank(), {0, 1, 2});
      for (const auto& each : made) check(r2cclCommDestroy(each.second), "destroy");
    }
    check(comm.destroy(), "destroy");
  }});
}

// Neither these nor Splits and Dups make a connection.
TEST(CreateGroup, OpensNoSocket) {
  Job job(3);
  job.run({[](Comm& comm) {
    std::vector<int32_t> data(300'000);
    check(r2cclAllToAll(data.data(), data.data() + 150'000, 50'000, r2cclInt32, comm.handle(),
                        nullptr),
          "all connections for data");
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    const size_t before = tcp_sockets();
    check(r2cclBarrier(comm.handle(), nullptr), "counted");
    std::vector<r2cclComm_t> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(create(comm.handle(), {2, 1, 0}, "four"));
      check(r2cclCommDup(comm.handle(), &all.emplace_back(), nullptr), "dup");
    }
    for (r2cclComm_t each : all) expect_sum(each, comm.rank(), {0, 1, 2});
    EXPECT_EQ(tcp_sockets(), before);
    check(r2cclBarrier(comm.handle(), nullptr), "counted again");
    for (r2cclComm_t each : all) check(r2cclCommDestroy(each), "destroy");
    check(comm.destroy(), "destroy");
  }});
}

TEST(CreateGroup, ThatARankDoesNotMakeNamesItAtTheFirstCall) {
  Job job(2);
  job.run({[](Comm& comm) {
    if (comm.rank() == 0) {
      r2cclComm_t made = create(comm.handle(), {0, 1}, "alone");
      std::vector<int32_t> data(10);
      r2cclRequest_t request = nullptr;
      check(r2cclAllReduce(data.data(), data.data(), data.size(), r2cclInt32, r2cclSum, made,
                           &request),
            "call");
      EXPECT_EQ(r2cclRequestWait(&request, 2000), r2cclTimeout);
      EXPECT_TRUE(said("rank 1")) << r2cclGetLastError(nullptr);
      check(r2cclCommAbort(made), "abort");
      EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclAborted);
      check(r2cclCommDestroy(made), "destroy");
    }
    expect_sum(comm.handle(), comm.rank(), {0, 1});
    check(comm.destroy(), "destroy");
  }});
}

TEST(CreateGroup, RefusesWrongArguments) {
  Job job(2);
  job.run({[](Comm& comm) {
    const r2cclComm_t handle = comm.handle();
    EXPECT_EQ(try_create(handle, {0, 2}, "a"), r2cclInvalidArgument);
    EXPECT_TRUE(said("ranks has 2, it must be 0 to 1")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(try_create(handle, {0, 1, 0}, "a"), r2cclInvalidArgument);
    EXPECT_TRUE(said("0 twice")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(try_create(handle, {1 - comm.rank()}, "a"), r2cclInvalidArgument);
    EXPECT_TRUE(said("only the members call it")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(try_create(handle, {}, "a"), r2cclInvalidArgument);
    EXPECT_EQ(try_create(handle, {0, 1}, nullptr), r2cclInvalidArgument);
    EXPECT_EQ(try_create(handle, {0, 1}, std::string(256, 'x').c_str()), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommCreateGroup(handle, nullptr, 1, "a", nullptr, nullptr),
              r2cclInvalidArgument);
    r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
    config.cutoff_ms = 1234;
    EXPECT_EQ(try_create(handle, {0, 1}, "a", &config), r2cclInvalidArgument);
    EXPECT_TRUE(said("cutoff_ms")) << r2cclGetLastError(nullptr);
    expect_sum(handle, comm.rank(), {0, 1});
    check(r2cclCommFinalize(handle), "finalize");
    EXPECT_EQ(try_create(handle, {0, 1}, "late"), r2cclInvalidUsage);
    check(comm.destroy(), "destroy");
  }});
}

// A NIC fails while groups come and go.
TEST(CreateGroup, LosesNothingWithANic) {
  Job job(3);
  Rounds rounds;
  job.run({[&](Comm& comm) {
            for (int round = 0; rounds.enter(round); ++round) {
              const std::vector<int> members = {round % 3, (round + 1) % 3};
              if (std::ranges::find(members, comm.rank()) == members.end()) continue;
              r2cclComm_t pair = create(comm.handle(), members, "pair");
              expect_sum(pair, comm.rank(), members);
              check(r2cclCommDestroy(pair), "destroy");
            }
            check(comm.destroy(), "destroy");
          }},
          [&] {
            for (int time = 0; time < 4; ++time) {
              const std::string victim = nic(time % 3, time % kNics);
              const int begin = rounds.newest();
              job.fault(victim, "down");
              job.wait_for("rounds", [&] { return rounds.newest() > begin + 20; });
              job.fault(victim, "");
              job.wait_for("rounds", [&] { return rounds.newest() > begin + 40; });
            }
            rounds.stop();
          });
}

}  // namespace
}  // namespace job
