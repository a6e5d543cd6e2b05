// Handles that were freed, copied or never made: each call returns an error, and no call reads
// through them.
#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kCount = 1000;

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

r2cclResult_t reduce(r2cclComm_t comm, Buffer& buffer, r2cclRequest_t* request) {
  return r2cclAllReduce(buffer.data(), buffer.data(), kCount, r2cclInt32, r2cclSum, comm, request);
}

// Makes every call that takes a communicator.
std::vector<r2cclResult_t> use(r2cclComm_t comm) {
  Buffer buffer(kCount, Values{});
  r2cclResult_t error = r2cclSuccess;
  int number = 0;
  size_t bytes = 0;
  r2cclRequest_t request = nullptr;
  r2cclComm_t child = nullptr;
  r2cclErrorInfo_t info{};
  info.size = sizeof info;
  void* memory = nullptr;
  std::vector<r2cclResult_t> results = {
      reduce(comm, buffer, &request),
      reduce(comm, buffer, nullptr),
      r2cclBroadcast(buffer.data(), buffer.data(), kCount, r2cclInt32, 0, comm, &request),
      r2cclSend(buffer.data(), kCount, r2cclInt32, 0, comm, &request),
      r2cclRecv(buffer.data(), kCount, r2cclInt32, 0, comm, &request),
      r2cclBarrier(comm, &request),
      r2cclCommAbort(comm),
      r2cclCommAbortWith(comm, "a reason"),
      r2cclCommGetAsyncError(comm, &error),
      r2cclCommCount(comm, &number),
      r2cclCommUserRank(comm, &number),
      r2cclCommReport(comm, nullptr, &bytes),
      r2cclCommGetFd(comm, &number),
      r2cclCommSplit(comm, 0, 0, &child, nullptr),
      r2cclCommDup(comm, &child, nullptr),
      r2cclGetErrorInfo(comm, &info),
      r2cclCommRegister(comm, buffer.data(), 1, &memory),
      r2cclCommDeregister(comm, &memory),
      r2cclCommGetPaths(comm, nullptr, &bytes),
      r2cclCommGetVerdicts(comm, nullptr, &bytes),
      r2cclCommSetVerdictCallback(comm, nullptr, nullptr),
      r2cclCommFinalize(comm),
      r2cclCommDestroy(comm)};
  EXPECT_EQ(request, nullptr);
  return results;
}

void expect_refused(r2cclComm_t comm, const std::string& words) {
  const std::vector<r2cclResult_t> results = use(comm);
  EXPECT_EQ(results, std::vector<r2cclResult_t>(results.size(), r2cclInvalidArgument));
  EXPECT_TRUE(said(words)) << r2cclGetLastError(nullptr);
  EXPECT_NE(std::string(r2cclGetLastError(comm)).find(words), std::string::npos);
}

void expect_refused(r2cclRequest_t request, const std::string& words) {
  int done = 0;
  const std::array<std::function<r2cclResult_t(r2cclRequest_t*)>, 4> calls = {
      [](r2cclRequest_t* each) { return r2cclRequestWait(each, 0); },
      [](r2cclRequest_t* each) { return r2cclRequestWait(each, -1); },
      [&](r2cclRequest_t* each) { return r2cclRequestTest(each, &done); },
      [](r2cclRequest_t* each) { return r2cclRequestAbort(each); }};
  for (const auto& call : calls) {
    r2cclRequest_t copy = request;
    EXPECT_EQ(call(&copy), r2cclInvalidArgument);
    EXPECT_TRUE(said(words)) << r2cclGetLastError(nullptr);
    std::array<r2cclRequest_t, 3> several{nullptr, nullptr, request};
    EXPECT_EQ(r2cclRequestWaitAll(3, several.data(), 0), r2cclInvalidArgument);
    EXPECT_TRUE(said(words) && said("requests[2]")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(r2cclRequestWaitAny(3, several.data(), &done, 0), r2cclInvalidArgument);
    EXPECT_TRUE(said(words) && said("requests[2]")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(r2cclRequestTestAll(3, several.data(), &done), r2cclInvalidArgument);
    EXPECT_TRUE(said(words) && said("requests[2]")) << r2cclGetLastError(nullptr);
  }
}

TEST(Handles, ARequestThatIsNullIsComplete) {
  r2cclRequest_t request = nullptr;
  int done = 0;
  EXPECT_EQ(r2cclRequestWait(&request, -1), r2cclSuccess);
  EXPECT_EQ(r2cclRequestWait(&request, 0), r2cclSuccess);
  EXPECT_EQ(r2cclRequestTest(&request, &done), r2cclSuccess);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(r2cclRequestAbort(&request), r2cclSuccess);
  EXPECT_EQ(request, nullptr);
}

TEST(Handles, AnArrayOfRequestsCanBeWaitedForAgainAndAgain) {
  Job job(2);
  job.run({[](Comm& comm) {
    std::vector<Buffer> buffers;
    std::array<r2cclRequest_t, 5> requests{};
    for (r2cclRequest_t& each : requests) {
      buffers.emplace_back(kCount, Values{});
      check(reduce(comm.handle(), buffers.back(), &each), "start");
    }
    for (int round = 0; round < 2; ++round) {
      for (r2cclRequest_t& each : requests) {
        EXPECT_EQ(r2cclRequestWait(&each, kPatienceMs), r2cclSuccess);
      }
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Handles, ACopyOfARequestThatHasEndedIsRefused) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer buffer(kCount, Values{});
    r2cclRequest_t request = nullptr;
    check(reduce(comm.handle(), buffer, &request), "start");
    const r2cclRequest_t copy = request;
    EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclSuccess);
    EXPECT_EQ(request, nullptr);
    expect_refused(copy, "this request is complete and was freed");
    // A handle that is made meanwhile is not mistaken for it.
    check(reduce(comm.handle(), buffer, &request), "start");
    EXPECT_NE(request, copy);
    expect_refused(copy, "this request is complete and was freed");
    EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclSuccess);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Handles, ACommunicatorThatWasDestroyedIsRefusedByEveryCall) {
  Job job(2);
  job.run({[](Comm& comm) {
    const r2cclComm_t handle = comm.handle();
    check(comm.destroy(), "destroy");
    expect_refused(handle, "this communicator was destroyed");
  }});
}

TEST(Handles, MemoryThatWasNeverAHandleIsRefused) {
  std::array<uintptr_t, 64> zeros{};
  for (const uintptr_t value :
       {uintptr_t{1}, uintptr_t{0x1000}, reinterpret_cast<uintptr_t>(&zeros), UINTPTR_MAX,
        uintptr_t{0xa5a5a5a5a5a5a5a5}}) {
    expect_refused(reinterpret_cast<r2cclComm_t>(value), "comm is no communicator");
    expect_refused(reinterpret_cast<r2cclRequest_t>(value), "*request is no request");
  }
}

TEST(Handles, OfOneKindAreRefusedForTheOther) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer buffer(kCount, Values{});
    r2cclRequest_t request = nullptr;
    check(reduce(comm.handle(), buffer, &request), "start");
    expect_refused(reinterpret_cast<r2cclComm_t>(request), "comm is no communicator");
    expect_refused(reinterpret_cast<r2cclRequest_t>(comm.handle()), "*request is no request");
    EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclSuccess);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Handles, ARequestMayEndAfterItsCommunicator) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer buffer(kCount, Values{});
    std::array<r2cclRequest_t, 2> requests{};
    for (r2cclRequest_t& each : requests) {
      // The other rank may have aborted by now.
      const r2cclResult_t posted =
          r2cclRecv(buffer.data(), kCount, r2cclInt32, 1 - comm.rank(), comm.handle(), &each);
      EXPECT_TRUE(posted == r2cclSuccess || posted == r2cclRemoteError) << posted;
    }
    check(r2cclCommAbort(comm.handle()), "abort");
    check(comm.destroy(), "destroy");
    if (requests[0] != nullptr) {
      const r2cclResult_t ended = r2cclRequestWait(&requests[0], kPatienceMs);
      EXPECT_TRUE(ended == r2cclAborted || ended == r2cclRemoteError) << ended;
    }
    EXPECT_EQ(r2cclRequestAbort(&requests[1]), r2cclSuccess);
  }});
}

TEST(Handles, ACallThatFailsSetsItsRequestToNull) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer buffer(kCount, Values{});
    int32_t* const data = buffer.data();
    const auto peer = 1 - comm.rank();
    const auto no_type = static_cast<r2cclDataType_t>(15);
    const std::array<std::function<r2cclResult_t(r2cclRequest_t*)>, 6> calls = {
        [&](auto* r) { return r2cclAllReduce(data, data, 9, no_type, r2cclSum, comm.handle(), r); },
        [&](auto* r) { return reduce(nullptr, buffer, r); },
        [&](auto* r) { return r2cclBroadcast(data, data, 9, r2cclInt32, 7, comm.handle(), r); },
        [&](auto* r) { return r2cclSend(nullptr, 9, r2cclInt32, peer, comm.handle(), r); },
        [&](auto* r) { return r2cclRecv(data, 9, r2cclInt32, -1, comm.handle(), r); },
        [&](auto* r) { return r2cclBarrier(nullptr, r); }};
    for (const auto& call : calls) {
      auto request = reinterpret_cast<r2cclRequest_t>(uintptr_t{1});
      EXPECT_EQ(call(&request), r2cclInvalidArgument);
      EXPECT_EQ(request, nullptr);
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Results, ThatAreOursLieBeyondTheOnesOfNccl) {
  EXPECT_EQ(r2cclTimeout, 8);
  EXPECT_EQ(r2cclAborted, 1000);
}

TEST(Results, HaveTheirUsualNames) {
  EXPECT_STREQ(r2cclGetErrorString(r2cclSuccess), "no error");
  EXPECT_STREQ(r2cclGetErrorString(r2cclSystemError), "system error");
  EXPECT_STREQ(r2cclGetErrorString(r2cclRemoteError), "remote error");
  EXPECT_STREQ(r2cclGetErrorString(r2cclTimeout), "timed out");
  EXPECT_STREQ(r2cclGetErrorString(r2cclAborted), "aborted");
  for (const int unknown : {1, 9, 999, 1001, -1}) {
    EXPECT_STREQ(r2cclGetErrorString(static_cast<r2cclResult_t>(unknown)), "unknown result code");
  }
}

}  // namespace
}  // namespace job
