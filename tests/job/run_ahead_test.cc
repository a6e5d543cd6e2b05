// A rank may run thousands of small calls ahead of a late rank. That is no fault: no path may go
// down, and no verdict may name a NIC.
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

// A sender may be 4,096 messages ahead of a receiver.
constexpr int kCalls = 5000;
// Long enough for the other rank to send all its permitted messages.
constexpr auto kLate = std::chrono::seconds(1);

// Returns one call's number of elements: from 0 to 15.
size_t count_of(int call) {
  return static_cast<size_t>(call) % 16;
}

int32_t value_of(int call, size_t element) {
  return Values{0, 0, static_cast<uint32_t>(call)}[element];
}

using Buffers = std::vector<std::vector<int32_t>>;

Buffers make_buffers(bool filled) {
  Buffers buffers(kCalls);
  for (int call = 0; call < kCalls; ++call) {
    auto& buffer = buffers[static_cast<size_t>(call)];
    buffer.resize(count_of(call), -1);
    for (size_t i = 0; filled && i < buffer.size(); ++i) buffer[i] = value_of(call, i);
  }
  return buffers;
}

void expect_right(const Buffers& buffers) {
  for (int call = 0; call < kCalls; ++call) {
    const auto& buffer = buffers[static_cast<size_t>(call)];
    for (size_t i = 0; i < buffer.size(); ++i) ASSERT_EQ(buffer[i], value_of(call, i)) << call;
  }
}

void wait_for_all(std::vector<r2cclRequest_t>& requests) {
  for (r2cclRequest_t& request : requests) check(r2cclRequestWait(&request, kPatienceMs), "wait");
}

void expect_quiet(const Comm& comm) {
  const Report report = comm.report();
  EXPECT_NE(report.text.find("\"verdicts\":[]"), std::string::npos) << report.text;
  for (const Report::Path& path : report.paths) {
    EXPECT_EQ(path.incarnation, 1U) << "a path has been down: " << report.text;
    EXPECT_EQ(path.state, "up") << report.text;
  }
}

// Rank 0 makes its calls at once, the other ranks make theirs much later.
using Call = std::function<r2cclResult_t(Comm&, std::vector<int32_t>&, r2cclRequest_t*)>;
RankBody run_ahead(const Call& make_call) {
  return [&make_call](Comm& comm) {
    if (comm.rank() != 0) std::this_thread::sleep_for(kLate);
    Buffers buffers = make_buffers(comm.rank() == 0);
    std::vector<r2cclRequest_t> requests(kCalls);
    for (size_t call = 0; call < buffers.size(); ++call) {
      check(make_call(comm, buffers[call], &requests[call]), "call");
    }
    wait_for_all(requests);
    expect_right(buffers);
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    expect_quiet(comm);
    check(comm.destroy(), "destroy");
  };
}

TEST(RunAhead, ManySmallSendsToALateRankBreakNoPath) {
  Job job(2);
  const Call call = [](Comm& comm, std::vector<int32_t>& buffer, r2cclRequest_t* request) {
    return comm.rank() == 0
               ? r2cclSend(buffer.data(), buffer.size(), r2cclInt32, 1, comm.handle(), request)
               : r2cclRecv(buffer.data(), buffer.size(), r2cclInt32, 0, comm.handle(), request);
  };
  job.run({run_ahead(call)});
}

TEST(RunAhead, ManySmallBroadcastsToLateRanksBreakNoPath) {
  Job job(3);
  const Call call = [](Comm& comm, std::vector<int32_t>& buffer, r2cclRequest_t* request) {
    return r2cclBroadcast(buffer.data(), buffer.data(), buffer.size(), r2cclInt32, 0, comm.handle(),
                          request);
  };
  job.run({run_ahead(call)});
}

// r2ccl(3) promises it: a collective reads what the earlier ones of its communicator wrote.
TEST(RunAhead, ACollectiveTakesTheResultsOfEarlierOnesWithoutAWait) {
  constexpr int kRanks = 4;
  constexpr size_t kBlock = 30000;
  constexpr size_t kRounds = 14;
  Job job(kRanks);
  job.run({[](Comm& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    std::vector<int32_t> sums(kRanks * kBlock, comm.rank() + 1);
    int32_t* const own = sums.data() + rank * kBlock;
    std::vector<r2cclRequest_t> requests(3 * kRounds);
    for (size_t round = 0; round < kRounds; ++round) {
      r2cclRequest_t* const request = &requests[3 * round];
      check(r2cclReduceScatter(sums.data(), own, kBlock, r2cclInt32, r2cclMax, comm.handle(),
                               &request[0]),
            "reduce scatter");
      check(r2cclAllGather(own, sums.data(), kBlock, r2cclInt32, comm.handle(), &request[1]),
            "all gather");
      // All ranks have the same now: 4 at first, then four times as much.
      check(r2cclAllReduce(sums.data(), sums.data(), sums.size(), r2cclInt32, r2cclSum,
                           comm.handle(), &request[2]),
            "all reduce");
    }
    wait_for_all(requests);
    uint32_t expected = kRanks;
    for (size_t round = 0; round < kRounds; ++round) expected *= kRanks;
    for (const int32_t sum : sums) ASSERT_EQ(static_cast<uint32_t>(sum), expected);
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
