// Calls between r2cclGroupStart and r2cclGroupEnd: all start before any is waited for, or none
// does.
#include <sys/mman.h>

#include <array>
#include <latch>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kSmall = 1000;
constexpr size_t kLarge = 2 << 20;  // elements: no link copies as much

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

Values own(const Comm& comm, uint32_t tag) {
  return {comm.rank(), comm.rank(), tag};
}

r2cclResult_t sum(Comm& comm, Buffer& buffer, size_t count, r2cclRequest_t* request) {
  return r2cclAllReduce(buffer.data(), buffer.data(), count, r2cclInt32, r2cclSum, comm.handle(),
                        request);
}

// Shows that the ranks have made the same calls so far.
void expect_works(Comm& comm) {
  Buffer data(kSmall, own(comm, 99));
  check(sum(comm, data, kSmall, nullptr), "a call after the group");
  data.expect({0, comm.ranks() - 1, 99}, "a call after the group");
}

TEST(Group, SendsToItsOwnRank) {
  Job job(2);
  job.run({[](Comm& comm) {
    for (const bool send_first : {true, false}) {
      Buffer source(kLarge, own(comm, 1));
      Buffer target(kLarge);
      const auto send = [&] {
        check(r2cclSend(source.data(), kLarge, r2cclInt32, comm.rank(), comm.handle(), nullptr),
              "send");
      };
      check(r2cclGroupStart(), "start");
      if (send_first) send();
      check(r2cclRecv(target.data(), kLarge, r2cclInt32, comm.rank(), comm.handle(), nullptr),
            "receive");
      if (!send_first) send();
      check(r2cclGroupEnd(), "end");
      target.expect(own(comm, 1), "what it sent to itself");
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Group, ExchangesLargeMessagesInOneThread) {
  Job job(2);
  job.run({[](Comm& comm) {
    const int peer = 1 - comm.rank();
    Buffer source(kLarge, own(comm, 2));
    Buffer target(kLarge);
    check(r2cclGroupStart(), "start");
    check(r2cclSend(source.data(), kLarge, r2cclInt32, peer, comm.handle(), nullptr), "send");
    check(r2cclRecv(target.data(), kLarge, r2cclInt32, peer, comm.handle(), nullptr), "receive");
    check(r2cclGroupEnd(), "end");
    target.expect({peer, peer, 2}, "the exchange");
    check(comm.destroy(), "destroy");
  }});
}

// One thread makes the calls of all ranks, as NCCL's programs with several GPUs in a thread do.
TEST(Group, StartsTheCallsOfAllCommunicatorsBeforeItWaits) {
  constexpr int kRanks = 3;
  Job job(kRanks);
  std::atomic<bool> done{false};
  const RankBody body = [&](Comm& comm) {
    job.wait_for("the group", [&] { return done.load(); });
    check(comm.destroy(), "destroy");
  };
  job.run({body}, [&] {
    std::vector<Buffer> data;
    check(r2cclGroupStart(), "start");
    for (int rank = 0; rank < kRanks; ++rank) {
      data.emplace_back(kLarge, own(job.comm(rank), 3));
      check(sum(job.comm(rank), data.back(), kLarge, nullptr), "call");
    }
    check(r2cclGroupEnd(), "end");
    for (Buffer& each : data) each.expect({0, kRanks - 1, 3}, "the sum");
    done = true;
  });
}

TEST(Group, SetsRequestsWhenTheOutermostGroupEnds) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer data(kSmall, own(comm, 4));
    r2cclRequest_t request = nullptr;
    check(r2cclGroupStart(), "start");
    check(r2cclGroupStart(), "start");
    check(sum(comm, data, kSmall, &request), "call");
    EXPECT_EQ(request, nullptr);
    check(r2cclGroupEnd(), "end of the inner group");
    EXPECT_EQ(request, nullptr);
    check(r2cclGroupEnd(), "end");
    EXPECT_NE(request, nullptr);
    check(r2cclRequestWait(&request, kPatienceMs), "wait");
    data.expect({0, 1, 4}, "the sum");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Group, WaitsForItsBlockingCallsAndForNoOther) {
  Job job(2);
  job.run({[](Comm& comm) {
    const int peer = 1 - comm.rank();
    Buffer data(kSmall, own(comm, 5));
    Buffer later(kSmall);
    r2cclRequest_t request = nullptr;
    check(r2cclGroupStart(), "start");
    check(r2cclRecv(later.data(), kSmall, r2cclInt32, peer, comm.handle(), &request), "receive");
    check(sum(comm, data, kSmall, nullptr), "call");
    check(r2cclGroupEnd(), "end");
    data.expect({0, 1, 5}, "the sum");
    int done = 1;
    check(r2cclRequestTest(&request, &done), "test");
    EXPECT_EQ(done, 0) << "the peer has sent nothing yet";
    // Both ranks have tested when this is over.
    expect_works(comm);
    Operation::send(comm, 6, kSmall, peer).finish();
    check(r2cclRequestWait(&request, kPatienceMs), "wait");
    later.expect({peer, peer, 6}, "the receive");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Group, OfManyCallsOnSeveralPeers) {
  constexpr int kEach = 300;
  Job job(3);
  job.run({[](Comm& comm) {
    std::vector<Buffer> targets;
    std::vector<Buffer> sources;
    check(r2cclGroupStart(), "start");
    for (int i = 0; i < kEach; ++i) {
      for (int peer = 0; peer < comm.ranks(); ++peer) {
        sources.emplace_back(10, own(comm, static_cast<uint32_t>(i)));
        targets.emplace_back(10);
        check(r2cclRecv(targets.back().data(), 10, r2cclInt32, peer, comm.handle(), nullptr), "r");
        check(r2cclSend(sources.back().data(), 10, r2cclInt32, peer, comm.handle(), nullptr), "s");
      }
    }
    check(r2cclGroupEnd(), "end");
    for (int i = 0; i < kEach; ++i) {
      for (int peer = 0; peer < comm.ranks(); ++peer) {
        const size_t at = static_cast<size_t>(i * comm.ranks() + peer);
        targets[at].expect({peer, peer, static_cast<uint32_t>(i)}, "message");
      }
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Group, StartsNothingAfterAnErrorInside) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer data(kSmall, own(comm, 7));
    std::array<r2cclRequest_t, 3> requests{};
    check(r2cclGroupStart(), "start");
    check(sum(comm, data, kSmall, &requests[0]), "call");
    EXPECT_EQ(r2cclSend(data.data(), kSmall, r2cclInt32, 7, comm.handle(), &requests[1]),
              r2cclInvalidArgument);
    EXPECT_TRUE(said("r2cclSend: peer is 7")) << r2cclGetLastError(nullptr);
    check(sum(comm, data, kSmall, &requests[2]), "call");
    EXPECT_EQ(r2cclGroupEnd(), r2cclInvalidArgument);
    EXPECT_TRUE(said("call 2 of the group (r2cclSend) failed")) << r2cclGetLastError(nullptr);
    EXPECT_TRUE(said("peer is 7")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(requests, (std::array<r2cclRequest_t, 3>{}));
    data.expect(own(comm, 7), "the buffer of a call that did not start");
    expect_works(comm);
    // The thread can open another group.
    check(r2cclGroupStart(), "start");
    check(sum(comm, data, kSmall, nullptr), "call");
    check(r2cclGroupEnd(), "end");
    data.expect({0, 1, 7}, "the next group");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Group, ReportsAnErrorOfAnInnerGroupAtEachEnd) {
  EXPECT_EQ(r2cclGroupStart(), r2cclSuccess);
  EXPECT_EQ(r2cclGroupStart(), r2cclSuccess);
  EXPECT_EQ(r2cclBarrier(nullptr, nullptr), r2cclInvalidArgument);
  EXPECT_EQ(r2cclGroupEnd(), r2cclInvalidArgument);
  EXPECT_TRUE(said("call 1 of the group (r2cclBarrier)")) << r2cclGetLastError(nullptr);
  EXPECT_EQ(r2cclGroupEnd(), r2cclInvalidArgument);
  EXPECT_TRUE(said("call 1 of the group (r2cclBarrier)")) << r2cclGetLastError(nullptr);
}

TEST(Group, EndsOnlyAfterAStart) {
  EXPECT_EQ(r2cclGroupEnd(), r2cclInvalidUsage);
  EXPECT_TRUE(said("no open group")) << r2cclGetLastError(nullptr);
  EXPECT_EQ(r2cclGroupStart(), r2cclSuccess);
  EXPECT_EQ(r2cclGroupEnd(), r2cclSuccess) << "an empty group";
  EXPECT_EQ(r2cclGroupEnd(), r2cclInvalidUsage);
}

TEST(Group, FailsWhenACommunicatorEndsInside) {
  for (const std::string how : {"destroyed", "aborted", "finalized"}) {
    SCOPED_TRACE(how);
    Job job(2);
    std::latch recorded(2);
    job.run({[&](Comm& comm) {
      Buffer data(kSmall, own(comm, 8));
      r2cclRequest_t request = nullptr;
      check(r2cclGroupStart(), "start");
      check(sum(comm, data, kSmall, &request), "call");
      recorded.arrive_and_wait();
      if (how == "destroyed") check(comm.destroy(), "destroy");
      if (how == "finalized") check(r2cclCommFinalize(comm.handle()), "finalize");
      if (how == "aborted") comm.abort();
      const r2cclResult_t ended = r2cclGroupEnd();
      if (how != "aborted") {
        EXPECT_EQ(ended, r2cclInvalidUsage);
        EXPECT_TRUE(said(how)) << r2cclGetLastError(nullptr);
      } else {
        // The other rank's abort may have come first.
        EXPECT_TRUE(ended == r2cclAborted || ended == r2cclRemoteError) << ended;
      }
      EXPECT_TRUE(said("call 1 of the group (r2cclAllReduce)")) << r2cclGetLastError(nullptr);
      EXPECT_EQ(request, nullptr);
      if (how != "destroyed") check(comm.destroy(), "destroy");
    }});
  }
}

// As outside a group: the other ranks are told, because this one cannot do its part.
TEST(Group, WithAnUnusableBufferFailsOnAllRanks) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer data(kSmall, own(comm, 9));
    const size_t bytes = kSmall * sizeof(int32_t);
    void* const torn = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool bad = comm.rank() == 0;
    check(r2cclGroupStart(), "start");
    // The news of the other rank's error may come before either call.
    (void)r2cclSend(data.data(), kSmall, r2cclInt32, 1 - comm.rank(), comm.handle(), nullptr);
    const r2cclResult_t second = r2cclRecv(bad ? torn : data.data(), kSmall, r2cclInt32,
                                           1 - comm.rank(), comm.handle(), nullptr);
    EXPECT_TRUE(!bad || second == r2cclInvalidArgument) << second;
    EXPECT_EQ(r2cclGroupEnd(), bad ? r2cclInvalidArgument : r2cclRemoteError);
    EXPECT_TRUE(said("recvbuff cannot be written at offset 0")) << r2cclGetLastError(nullptr);
    EXPECT_TRUE(!bad || said("call 2 of the group (r2cclRecv)")) << r2cclGetLastError(nullptr);
    munmap(torn, bytes);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Group, NamesTheCallThatFailsAfterItsStart) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer data(kSmall, own(comm, 10));
    if (comm.rank() == 1) {
      comm.abort();
      return check(comm.destroy(), "destroy");
    }
    check(r2cclGroupStart(), "start");
    r2cclResult_t ended = r2cclRecv(data.data(), kSmall, r2cclInt32, 1, comm.handle(), nullptr);
    const r2cclResult_t end = r2cclGroupEnd();
    if (ended == r2cclSuccess) ended = end;  // the news of the abort may come before the call
    EXPECT_EQ(ended, r2cclRemoteError);
    EXPECT_EQ(end, r2cclRemoteError);
    EXPECT_TRUE(said("call 1 of the group (r2cclRecv)")) << r2cclGetLastError(nullptr);
    EXPECT_TRUE(said("rank 1 ")) << r2cclGetLastError(nullptr);
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
