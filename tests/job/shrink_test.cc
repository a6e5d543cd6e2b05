// Smaller communicators through the C API: other threads, flags and the parent.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

r2cclResult_t try_shrink(r2cclComm_t comm, const std::vector<int>& excluded, r2cclComm_t* made,
                         int flags = R2CCL_SHRINK_DEFAULT) {
  return r2cclCommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), made, nullptr,
                         flags);
}

r2cclComm_t shrink(r2cclComm_t comm, const std::vector<int>& excluded,
                   int flags = R2CCL_SHRINK_DEFAULT) {
  r2cclComm_t made = nullptr;
  check(try_shrink(comm, excluded, &made, flags), "shrink");
  return made;
}

std::string last_error() {
  return r2cclGetLastError(nullptr);
}

TEST(Shrink, LeavesTheParentInUse) {
  Job job(4);
  job.run({[](Comm& comm) {
    for (int round = 0; round < 2 && comm.rank() != 2; ++round) {
      r2cclComm_t made = shrink(comm.handle(), {2});
      int rank = -1;
      check(r2cclCommUserRank(made, &rank), "rank");
      EXPECT_EQ(rank, comm.rank() < 2 ? comm.rank() : comm.rank() - 1);
      expect_sum(made, comm.rank(), {0, 1, 3});
      check(r2cclCommDestroy(made), "destroy");
    }
    expect_sum(comm.handle(), comm.rank(), {0, 1, 2, 3});
    check(comm.destroy(), "destroy");
  }});
}

TEST(Shrink, EndsThePendingCallsOfAllByItsFlag) {
  Job job(3);
  job.run({[](Comm& comm) {
    // A rank that is late here may hear of the others' call first.
    int32_t word = 0;
    r2cclRequest_t pending = nullptr;
    (void)r2cclRecv(&word, 1, r2cclInt32, (comm.rank() + 1) % 3, comm.handle(), &pending);
    r2cclComm_t made = shrink(comm.handle(), {}, R2CCL_SHRINK_ABORT);
    if (pending != nullptr) {
      EXPECT_NE(r2cclRequestWait(&pending, -1), r2cclSuccess);
    }
    EXPECT_NE(comm.async_error(), r2cclSuccess);
    expect_sum(made, comm.rank(), {0, 1, 2});
    check(comm.destroy(), "destroy the parent first");
    expect_sum(made, comm.rank(), {0, 1, 2});
    check(r2cclCommDestroy(made), "destroy");
  }});
}

// The call of the coordinator and that of another rank end, while a third one does not call.
TEST(Shrink, EndsWhenAnotherThreadAborts) {
  Job job(3);
  job.run({[](Comm& comm) {
    if (comm.rank() == 2) {
      while (comm.async_error() == r2cclSuccess) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      check(comm.destroy(), "destroy");
      return;
    }
    r2cclComm_t made = nullptr;
    std::thread other([&comm] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (comm.rank() == 1) (void)r2cclCommAbortWith(comm.handle(), "the test ends it");
    });
    const r2cclResult_t result = try_shrink(comm.handle(), {}, &made);
    other.join();
    EXPECT_EQ(result, r2cclRemoteError) << last_error();
    EXPECT_EQ(made, nullptr);
    check(comm.destroy(), "destroy");
  }});
}

// Two threads call: one waits for the other rank, which calls once the second thread is refused.
TEST(Shrink, IsOneCallAtATime) {
  Job job(2);
  std::atomic<int> refused = 0;
  job.run({[&refused](Comm& comm) {
    if (comm.rank() == 1) {
      while (refused == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      check(r2cclCommDestroy(shrink(comm.handle(), {})), "destroy");
      check(comm.destroy(), "destroy");
      return;
    }
    std::atomic<int> made = 0;
    const auto call = [&] {
      r2cclComm_t one = nullptr;
      const r2cclResult_t result = try_shrink(comm.handle(), {}, &one);
      if (result == r2cclSuccess) {
        ++made;
        EXPECT_EQ(r2cclCommDestroy(one), r2cclSuccess);
        return;
      }
      EXPECT_EQ(result, r2cclInvalidUsage);
      EXPECT_NE(last_error().find("has not returned"), std::string::npos) << last_error();
      ++refused;
    };
    std::thread other(call);
    call();
    other.join();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(refused, 1);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Shrink, RefusesWrongCalls) {
  Job job(2);
  job.run({[](Comm& comm) {
    r2cclComm_t made = nullptr;
    EXPECT_EQ(try_shrink(comm.handle(), {comm.rank()}, &made), r2cclInvalidArgument);
    EXPECT_EQ(try_shrink(comm.handle(), {2}, &made), r2cclInvalidArgument);
    EXPECT_EQ(try_shrink(comm.handle(), {}, &made, 2), r2cclInvalidArgument);
    EXPECT_EQ(try_shrink(comm.handle(), {}, nullptr), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommShrink(comm.handle(), nullptr, 1, &made, nullptr, 0), r2cclInvalidArgument);
    const int self = comm.rank();
    EXPECT_EQ(r2cclCommShrink(comm.handle(), &self, -1, &made, nullptr, 0), r2cclInvalidArgument);
    EXPECT_EQ(try_shrink(nullptr, {}, &made), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommRevoke(comm.handle(), 1), r2cclInvalidArgument);
    check(r2cclGroupStart(), "group");
    EXPECT_EQ(try_shrink(comm.handle(), {}, &made), r2cclInvalidUsage);
    check(r2cclGroupEnd(), "group");
    check(r2cclBarrier(comm.handle(), nullptr), "it goes on");
    check(r2cclCommFinalize(comm.handle()), "finalize");
    EXPECT_EQ(try_shrink(comm.handle(), {}, &made), r2cclInvalidUsage);
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
