// Communicators with further processes: here they are threads, so that sanitizers see all of them.
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

std::string last_error() {
  return r2cclGetLastError(nullptr);
}

TEST(Grow, TakesANewcomerAndLeavesTheParentInUse) {
  Job job(2);
  job.run({[&job](Comm& comm) {
    r2cclUniqueId id{};
    std::thread newcomer;
    if (comm.rank() == 0) {
      check(r2cclCommGetUniqueId(comm.handle(), &id), "id");
      newcomer = job.newcomer(2, [id] {
        r2cclComm_t joined = nullptr;
        EXPECT_EQ(r2cclCommGrow(nullptr, 3, &id, 2, &joined, nullptr), r2cclSuccess)
            << last_error();
        if (joined == nullptr) return;
        EXPECT_NO_THROW(expect_sum(joined, 2, {0, 1, 2}));
        EXPECT_EQ(r2cclCommDestroy(joined), r2cclSuccess) << last_error();
      });
    }
    r2cclComm_t grown = nullptr;
    const r2cclResult_t result =
        r2cclCommGrow(comm.handle(), 3, comm.rank() == 0 ? &id : nullptr, -1, &grown, nullptr);
    EXPECT_EQ(result, r2cclSuccess) << last_error();
    if (result == r2cclSuccess) {
      expect_sum(grown, comm.rank(), {0, 1, 2});
      expect_sum(comm.handle(), comm.rank(), {0, 1});
      check(r2cclCommDestroy(grown), "destroy");
    }
    if (newcomer.joinable()) newcomer.join();
    check(comm.destroy(), "destroy");
  }});
}

TEST(Grow, RefusesWrongCalls) {
  Job job(1);
  job.run({[](Comm& comm) {
    r2cclUniqueId id{};
    r2cclComm_t made = nullptr;
    EXPECT_EQ(r2cclCommGetUniqueId(comm.handle(), nullptr), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommGetUniqueId(nullptr, &id), r2cclInvalidArgument);
    check(r2cclCommGetUniqueId(comm.handle(), &id), "id");
    EXPECT_EQ(r2cclCommGrow(comm.handle(), 1, &id, -1, &made, nullptr), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommGrow(comm.handle(), 2, &id, 0, &made, nullptr), r2cclInvalidArgument);
    EXPECT_NE(last_error().find("rank must be -1"), std::string::npos) << last_error();
    EXPECT_EQ(r2cclCommGrow(comm.handle(), 2, &id, -1, nullptr, nullptr), r2cclInvalidArgument);
    EXPECT_EQ(r2cclCommGrow(comm.handle(), 2, nullptr, -1, &made, nullptr), r2cclInvalidUsage);
    EXPECT_EQ(r2cclCommGrow(nullptr, 2, nullptr, 1, &made, nullptr), r2cclInvalidArgument);
    r2cclUniqueId foreign{};
    check(r2cclGetUniqueId(&foreign), "another id");
    EXPECT_EQ(r2cclCommGrow(comm.handle(), 2, &foreign, -1, &made, nullptr), r2cclInvalidArgument);
    EXPECT_NE(last_error().find("not of this communicator"), std::string::npos) << last_error();
    EXPECT_EQ(comm.async_error(), r2cclSuccess);
    check(comm.destroy(), "destroy");
    EXPECT_EQ(made, nullptr);
  }});
}

}  // namespace
}  // namespace job
