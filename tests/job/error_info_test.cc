// Names of communicators and calls in texts, and errors as values.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kCount = 100;

r2cclErrorInfo_t error_info(r2cclComm_t comm = nullptr) {
  r2cclErrorInfo_t info{};
  info.size = sizeof info;
  check(r2cclGetErrorInfo(comm, &info), "error info");
  return info;
}

std::vector<int> ranks_of(const r2cclErrorInfo_t& info) {
  std::vector<int> ranks(info.ranks, info.ranks + info.rank_count);
  std::ranges::sort(ranks);
  return ranks;
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

r2cclResult_t sum(r2cclComm_t comm, size_t count = kCount) {
  std::vector<int32_t> data(count);
  return r2cclAllReduce(data.data(), data.data(), count, r2cclInt32, r2cclSum, comm, nullptr);
}

std::string report_of(r2cclComm_t comm) {
  std::string text(64 * 1024, '\0');
  size_t bytes = text.size();
  check(r2cclCommReport(comm, text.data(), &bytes), "report");
  text.resize(std::min(bytes, text.size()) - 1);
  return text;
}

TEST(ErrorInfo, NamesTheRankThatAborted) {
  Job job(3);
  job.run({[](Comm& comm) {
    if (comm.rank() == 1) {
      comm.abort();
    } else {
      EXPECT_EQ(sum(comm.handle()), r2cclRemoteError);
      const r2cclErrorInfo_t info = error_info();
      EXPECT_EQ(info.code, r2cclRemoteError);
      EXPECT_EQ(ranks_of(info), std::vector<int>{1});
      EXPECT_STREQ(info.text, r2cclGetLastError(nullptr));
    }
    const r2cclErrorInfo_t info = error_info(comm.handle());
    EXPECT_EQ(info.code, comm.rank() == 1 ? r2cclAborted : r2cclRemoteError);
    EXPECT_EQ(ranks_of(info), std::vector<int>{1});
    EXPECT_EQ(info.ranks[1], -1);
    check(comm.destroy(), "destroy");
  }});
}

TEST(ErrorInfo, NamesBothRanksWhoseCallsDoNotMatch) {
  Job job(2);
  job.run({[](Comm& comm) {
    EXPECT_EQ(sum(comm.handle(), comm.rank() == 0 ? kCount : kCount + 1), r2cclInvalidUsage);
    EXPECT_EQ(ranks_of(error_info()), (std::vector<int>{0, 1})) << error_info().text;
    check(comm.destroy(), "destroy");
  }});
}

TEST(ErrorInfo, NamesTheRankThatLeft) {
  Job job(3);
  job.run({[](Comm& comm) {
    if (comm.rank() == 2) {
      EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclInvalidUsage);
    } else {
      EXPECT_EQ(sum(comm.handle()), r2cclRemoteError);
    }
    EXPECT_EQ(ranks_of(error_info()), std::vector<int>{2}) << error_info().text;
    check(comm.destroy(), "destroy");
  }});
}

TEST(ErrorInfo, NamesTheRankWithTheUnusableBuffer) {
  Job job(2);
  job.run({[](Comm& comm) {
    void* const torn = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::array<int32_t, kCount> data{};
    void* const target = comm.rank() == 1 ? torn : data.data();
    const r2cclResult_t result =
        r2cclAllReduce(data.data(), target, kCount, r2cclInt32, r2cclSum, comm.handle(), nullptr);
    EXPECT_EQ(result, comm.rank() == 1 ? r2cclInvalidArgument : r2cclRemoteError);
    EXPECT_EQ(ranks_of(error_info()), std::vector<int>{1}) << error_info().text;
    munmap(torn, 4096);
    check(comm.destroy(), "destroy");
  }});
}

TEST(ErrorInfo, NamesTheRanksThatDidNotArrive) {
  r2cclUniqueId id;
  r2cclComm_t comm = nullptr;
  r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
  config.init_timeout_ms = 300;
  ASSERT_EQ(r2cclGetUniqueId(&id), r2cclSuccess) << r2cclGetLastError(nullptr);
  EXPECT_EQ(r2cclCommInitRankConfig(&comm, 40, id, 3, &config), r2cclTimeout);
  const r2cclErrorInfo_t info = error_info();
  EXPECT_EQ(info.code, r2cclTimeout);
  // As many as go with the answer of the rendezvous.
  EXPECT_EQ(info.rank_count, R2CCL_ERROR_RANKS_MAX);
  EXPECT_EQ(info.ranks[2], 2);
  EXPECT_EQ(info.ranks[3], 4);
}

TEST(ErrorInfo, KeepsTheRanksInTheErrorsOfGroupsAndSets) {
  Job job(2);
  job.run({[](Comm& comm) {
    if (comm.rank() == 1) {
      check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      comm.abort();
      return check(comm.destroy(), "destroy");
    }
    std::array<int32_t, kCount> data{};
    std::array<r2cclRequest_t, 1> request{};
    check(r2cclRecv(data.data(), kCount, r2cclInt32, 1, comm.handle(), request.data()), "receive");
    check(r2cclGroupStart(), "start");
    check(r2cclRecv(data.data(), kCount, r2cclInt32, 1, comm.handle(), nullptr), "receive");
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    EXPECT_EQ(r2cclGroupEnd(), r2cclRemoteError);
    EXPECT_EQ(ranks_of(error_info()), std::vector<int>{1}) << error_info().text;
    EXPECT_EQ(r2cclRequestWaitAll(1, request.data(), kPatienceMs), r2cclRemoteError);
    EXPECT_EQ(ranks_of(error_info()), std::vector<int>{1}) << error_info().text;
    check(comm.destroy(), "destroy");
  }});
}

TEST(ErrorInfo, NamesTheRankThatAWaitFoundLate) {
  Job job(3);
  job.run({[](Comm& comm) {
    std::array<int32_t, kCount> data{};
    if (comm.rank() == 0) {
      std::array<r2cclRequest_t, 2> requests{};
      check(r2cclRecv(data.data(), kCount, r2cclInt32, 2, comm.handle(), requests.data()),
            "receive");
      EXPECT_EQ(r2cclRequestWait(requests.data(), 1500), r2cclTimeout);
      EXPECT_EQ(ranks_of(error_info()), std::vector<int>{2}) << error_info().text;
      EXPECT_EQ(r2cclRequestWaitAll(2, requests.data(), 1500), r2cclTimeout);
      EXPECT_EQ(ranks_of(error_info()), std::vector<int>{2}) << error_info().text;
      EXPECT_EQ(error_info(comm.handle()).code, r2cclSuccess) << "the communicator goes on";
      check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      EXPECT_EQ(r2cclRequestWaitAll(2, requests.data(), kPatienceMs), r2cclSuccess);
    } else {
      check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      if (comm.rank() == 2) {
        check(r2cclSend(data.data(), kCount, r2cclInt32, 0, comm.handle(), nullptr), "send");
      }
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(ErrorInfo, HasNoRankForAWrongArgument) {
  EXPECT_EQ(r2cclBarrier(nullptr, nullptr), r2cclInvalidArgument);
  const r2cclErrorInfo_t info = error_info();
  EXPECT_EQ(info.code, r2cclInvalidArgument);
  EXPECT_EQ(info.rank_count, 0);
  EXPECT_TRUE(std::ranges::all_of(info.ranks, [](int rank) { return rank == -1; }));
  EXPECT_STREQ(info.text, "r2cclBarrier: comm is NULL");
}

TEST(ErrorInfo, OfAHealthyCommunicatorIsSuccess) {
  Job job(2);
  job.run({[](Comm& comm) {
    EXPECT_EQ(r2cclBarrier(nullptr, nullptr), r2cclInvalidArgument);
    const r2cclErrorInfo_t info = error_info(comm.handle());
    EXPECT_EQ(info.code, r2cclSuccess);
    EXPECT_EQ(info.rank_count, 0);
    EXPECT_STREQ(info.text, "");
    EXPECT_EQ(error_info().code, r2cclInvalidArgument) << "the thread's error is still there";
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    check(comm.destroy(), "destroy");
  }});
}

TEST(ErrorInfo, RefusesAStructThatIsNone) {
  r2cclErrorInfo_t info{};
  EXPECT_EQ(r2cclGetErrorInfo(nullptr, nullptr), r2cclInvalidArgument);
  EXPECT_EQ(r2cclGetErrorInfo(nullptr, &info), r2cclInvalidArgument);
  info.size = sizeof info - 1;
  EXPECT_EQ(r2cclGetErrorInfo(nullptr, &info), r2cclInvalidArgument);
  // The struct of a later version is larger. This version leaves the rest as it was.
  struct {
    r2cclErrorInfo_t known{};
    int later = 77;
  } larger;
  larger.known.size = sizeof larger;
  EXPECT_EQ(r2cclGetErrorInfo(nullptr, &larger.known), r2cclSuccess);
  EXPECT_EQ(larger.later, 77);
}

TEST(Names, OfCommunicatorAndCallAreInErrorsWaitsAndReport) {
  Job job(2);
  job.run({[](Comm& comm) {
    r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
    config.name = "dp\033[2J";
    r2cclComm_t named = nullptr;
    check(r2cclCommDup(comm.handle(), &named, &config), "dup");
    EXPECT_TRUE(has(report_of(named), "\"name\":\"dp?[2J\"")) << report_of(named);
    EXPECT_TRUE(has(report_of(comm.handle()), "\"name\":\"\""));
    if (comm.rank() == 0) {
      std::vector<int32_t> data(kCount);
      r2cclRequest_t request = nullptr;
      check(r2cclSetCallName("layer3.grad"), "name");
      check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclInt32, r2cclSum, named, &request),
            "start");
      EXPECT_EQ(r2cclRequestWait(&request, 3000), r2cclTimeout);
      EXPECT_TRUE(has(r2cclGetLastError(nullptr),
                      "AllReduce 1 \"layer3.grad\" (100 int32, sum) on communicator \"dp?[2J\": "
                      "waiting for rank 1"))
          << r2cclGetLastError(nullptr);
      EXPECT_TRUE(has(report_of(named), "AllReduce 1 \\\"layer3.grad\\\" (100 int32, sum)"))
          << report_of(named);
      check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclInvalidUsage);
    } else {
      check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      EXPECT_EQ(sum(named, kCount + 1), r2cclInvalidUsage);
    }
    const std::string told = r2cclGetLastError(nullptr);
    EXPECT_TRUE(has(told, "AllReduce 1 \"layer3.grad\" (100 int32, sum)")) << told;
    EXPECT_TRUE(has(told, "AllReduce 1 (101 int32, sum)")) << told;
    EXPECT_TRUE(told.ends_with(" on communicator \"dp?[2J\"")) << told;
    check(r2cclCommDestroy(named), "destroy");
    check(comm.destroy(), "destroy");
  }});
}

// Returns the text of a wait for an operation that nobody matches, which `start` starts.
std::string text_of_wait(const std::function<r2cclResult_t(r2cclRequest_t*)>& start) {
  r2cclRequest_t request = nullptr;
  check(start(&request), "start");
  EXPECT_EQ(r2cclRequestWait(&request, 200), r2cclTimeout);
  return r2cclGetLastError(nullptr);
}

TEST(Names, OfACallAreForTheNextOneOnly) {
  Job job(2);
  job.run({[&](Comm& comm) {
    if (comm.rank() == 1) {
      check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      comm.abort();
      return check(comm.destroy(), "destroy");
    }
    std::array<int32_t, kCount> data{};
    const auto receive = [&](r2cclRequest_t* request) {
      return r2cclRecv(data.data(), kCount, r2cclInt32, 1, comm.handle(), request);
    };
    check(r2cclSetCallName(std::string(80, 'x').c_str()), "name");
    const std::string first = text_of_wait(receive);
    EXPECT_TRUE(has(first, "Recv 1 \"" + std::string(60, 'x') + "...\" (")) << first;
    EXPECT_TRUE(has(text_of_wait(receive), "Recv 2 (")) << r2cclGetLastError(nullptr);
    check(r2cclSetCallName("used up"), "name");
    EXPECT_EQ(r2cclBarrier(nullptr, nullptr), r2cclInvalidArgument);
    EXPECT_TRUE(has(text_of_wait(receive), "Recv 3 (")) << r2cclGetLastError(nullptr);
    check(r2cclSetCallName("taken back"), "name");
    check(r2cclSetCallName(nullptr), "name");
    EXPECT_TRUE(has(text_of_wait(receive), "Recv 4 (")) << r2cclGetLastError(nullptr);
    // In a group a name belongs to its call.
    const std::string grouped = text_of_wait([&](r2cclRequest_t* request) {
      r2cclRequest_t other = nullptr;
      check(r2cclGroupStart(), "start");
      check(receive(&other), "receive");
      check(r2cclSetCallName("second"), "name");
      check(receive(request), "receive");
      return r2cclGroupEnd();
    });
    EXPECT_TRUE(has(grouped, "Recv 6 \"second\" (")) << grouped;
    (void)r2cclBarrier(comm.handle(), nullptr);  // rank 1 may abort before this returns
    job.wait_for("the abort", [&] { return comm.async_error() != r2cclSuccess; });
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
