// The algorithm of a communicator, as its config sets it and its children inherit it.
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 4;
constexpr size_t kCount = 50'000;
// A direct exchange sends each other rank two quarters of the vector. A ring has no message for the
// rank opposite.
constexpr uint64_t kExchanged = kCount * sizeof(int32_t) / kRanks;

// Returns the bytes that this rank sends to the rank opposite in the ring during an AllReduce.
uint64_t sent_across(r2cclComm_t comm) {
  int rank = 0;
  check(r2cclCommUserRank(comm, &rank), "rank");
  const int opposite = (rank + kRanks / 2) % kRanks;
  const uint64_t before = report_of(comm).sent_to(opposite);
  Buffer data(kCount, {rank, rank, 7});
  check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclInt32, r2cclSum, comm, nullptr),
        "sum");
  data.expect({0, kRanks - 1, 7}, "the sum");
  return report_of(comm).sent_to(opposite) - before;
}

r2cclComm_t dup(r2cclComm_t comm, const char* algorithm) {
  r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
  config.algorithm = algorithm;
  r2cclComm_t copy = nullptr;
  check(r2cclCommDup(comm, &copy, &config), "dup");
  return copy;
}

TEST(Algorithm, OfTheConfigReplacesThatOfTheEnvironmentAndIsInherited) {
  Job job(kRanks, "ring");
  job.run({[](Comm& comm) {
    EXPECT_LT(sent_across(comm.handle()), kExchanged) << "the environment's";
    const r2cclComm_t direct = dup(comm.handle(), "direct");
    EXPECT_GE(sent_across(direct), kExchanged) << "the config's";
    const r2cclComm_t inherited = dup(direct, nullptr);
    EXPECT_GE(sent_across(inherited), kExchanged) << "the parent's";
    const r2cclComm_t back = dup(inherited, "RING");
    EXPECT_LT(sent_across(back), kExchanged) << "the child's own";
    for (const r2cclComm_t each : {direct, inherited, back}) {
      check(r2cclCommDestroy(each), "destroy");
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Algorithm, MustBeTheSameOnAllRanks) {
  Job job(3);
  job.run({[](Comm& comm) {
    r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
    config.algorithm = comm.rank() == 1 ? "nested" : "ring";
    r2cclComm_t copy = nullptr;
    EXPECT_EQ(r2cclCommDup(comm.handle(), &copy, &config), r2cclInvalidUsage);
    EXPECT_EQ(copy, nullptr);
    const std::string said = r2cclGetLastError(nullptr);
    EXPECT_NE(said.find("R2CCL_ALGO differs between ranks"), std::string::npos) << said;
    EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
    check(comm.destroy(), "destroy");
  }});
}

TEST(Algorithm, ThatIsUnknownIsRefusedWithTheNamesOfAll) {
  Job job(1);
  job.run({[](Comm& comm) {
    for (const char* name : {"tree", "", "ring ", "r\ning"}) {
      r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
      config.algorithm = name;
      r2cclComm_t copy = nullptr;
      EXPECT_EQ(r2cclCommDup(comm.handle(), &copy, &config), r2cclInvalidArgument);
      const std::string said = r2cclGetLastError(nullptr);
      EXPECT_NE(said.find("config.algorithm="), std::string::npos) << said;
      EXPECT_EQ(said.find('\n'), std::string::npos) << said;
      EXPECT_NE(said.find("allowed is one of auto, ring, hd, rd, hier, direct, nested, split, "
                          "recursive_split, leaf, packed"),
                std::string::npos)
          << said;
    }
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
