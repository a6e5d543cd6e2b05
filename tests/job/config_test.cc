// The config struct, as callers of this, of earlier and of later versions fill it.
#include <cstddef>
#include <cstring>
#include <string>

#include "job.h"

namespace job {
namespace {

// The struct of a later version.
struct LaterConfig {
  r2cclConfig_t known;
  unsigned char more[64];
};

LaterConfig later_config() {
  LaterConfig config{R2CCL_CONFIG_INITIALIZER, {}};
  config.known.size = sizeof config;
  config.known.ifname = "lo";
  return config;
}

// Returns the error of init in a job of one rank; "" if it succeeds.
std::string said_of(const r2cclConfig_t& config) {
  r2cclUniqueId id;
  check(r2cclGetUniqueId(&id), "unique id");
  r2cclComm_t comm = nullptr;
  const r2cclResult_t result = r2cclCommInitRankConfig(&comm, 1, id, 0, &config);
  if (result == r2cclSuccess) {
    check(r2cclCommDestroy(comm), "destroy");
    return "";
  }
  EXPECT_EQ(result, r2cclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  return r2cclGetLastError(nullptr);
}

TEST(Config, WithALaterFieldThatIsNotSetIsTaken) {
  EXPECT_EQ(said_of(later_config().known), "");
}

TEST(Config, WithALaterFieldThatIsSetIsRefused) {
  for (const size_t at : {size_t{0}, size_t{17}, size_t{63}}) {
    LaterConfig config = later_config();
    config.more[at] = 1;
    const std::string said = said_of(config.known);
    EXPECT_NE(said.find("config: byte " + std::to_string(sizeof(r2cclConfig_t) + at) + " "),
              std::string::npos)
        << said;
  }
}

TEST(Config, OfAnEarlierVersionIsReadNoFurtherThanItGoes) {
  LaterConfig config = later_config();
  config.known.size = offsetof(r2cclConfig_t, init_timeout_ms);
  config.known.init_timeout_ms = -5;
  config.known.cutoff_ms = -5;
  EXPECT_EQ(said_of(config.known), "");
}

TEST(Config, ThatWasNotInitialisedIsRefused) {
  const std::string words = "was not initialised with R2CCL_CONFIG_INITIALIZER";
  r2cclConfig_t config;
  std::memset(&config, 0, sizeof config);
  EXPECT_NE(said_of(config).find(words), std::string::npos);
  config = R2CCL_CONFIG_INITIALIZER;
  for (const size_t size : {size_t{0}, size_t{8}, size_t{1} << 20, SIZE_MAX}) {
    config.size = size;
    EXPECT_NE(said_of(config).find(words), std::string::npos) << size;
  }
}

TEST(Config, TakesAZeroForAValueAndNotForUnset) {
  for (const int value : {0, -1, INT_MIN + 1}) {
    LaterConfig config = later_config();
    config.known.init_timeout_ms = value;
    EXPECT_NE(said_of(config.known).find("config.init_timeout_ms is " + std::to_string(value)),
              std::string::npos);
    config = later_config();
    config.known.cutoff_ms = value;
    EXPECT_NE(said_of(config.known).find("config.cutoff_ms is " + std::to_string(value)),
              std::string::npos);
  }
  LaterConfig config = later_config();
  config.known.init_timeout_ms = 60'000;
  config.known.cutoff_ms = 1;
  EXPECT_EQ(said_of(config.known), "");
  config.known.blocking = 0;
  EXPECT_NE(said_of(config.known).find("config.blocking is 0"), std::string::npos);
}

TEST(Config, TakesThreeValuesForReproducible) {
  for (const int value : {-1, 0, 1}) {
    LaterConfig config = later_config();
    config.known.reproducible = value;
    EXPECT_EQ(said_of(config.known), "");
  }
  LaterConfig config = later_config();
  config.known.reproducible = 2;
  EXPECT_NE(said_of(config.known).find("config.reproducible is 2"), std::string::npos);
  config.known.reproducible = 0;
  config.known.trusted_id = 2;
  EXPECT_NE(said_of(config.known).find("config.trusted_id is 2"), std::string::npos);
  config.known.size = offsetof(r2cclConfig_t, reproducible);
  EXPECT_EQ(said_of(config.known), "");
}

TEST(Config, LeavesItsTextsToTheCallerAfterInit) {
  r2cclUniqueId id;
  check(r2cclGetUniqueId(&id), "unique id");
  std::string ifname = "lo";
  r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
  config.ifname = ifname.c_str();
  config.oob_ifname = ifname.c_str();
  r2cclComm_t comm = nullptr;
  check(r2cclCommInitRankConfig(&comm, 1, id, 0, &config), "init");
  ifname.assign("\x01\x02");
  size_t bytes = 0;
  EXPECT_EQ(r2cclCommReport(comm, nullptr, &bytes), r2cclSuccess);
  EXPECT_EQ(r2cclBarrier(comm, nullptr), r2cclSuccess);
  check(r2cclCommDestroy(comm), "destroy");
}

}  // namespace
}  // namespace job
