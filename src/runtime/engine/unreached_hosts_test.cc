#include "runtime/engine/unreached_hosts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include "base/log.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 10 * kSecond;

// Ranks 0 and 1 are on the own host, 2 and 3 on host b, 4 on host c.
JobMap make_job() {
  std::vector<RankInfo> ranks;
  for (const char host : {'a', 'a', 'b', 'b', 'c'}) {
    RankInfo& info = ranks.emplace_back();
    info.rank = Rank(static_cast<int32_t>(ranks.size() - 1));
    info.host_name = host;
    info.host[0] = static_cast<std::byte>(host);
    info.pid = 40 + static_cast<uint32_t>(ranks.size());
  }
  return {Rank(0), std::move(ranks)};
}

using Story = std::function<void(UnreachedHosts& hosts)>;

void write_lines(const std::string& file, const Story& story) {
  if (!log_configure(LogLevel::warn, file).ok()) _exit(1);
  const JobMap job = make_job();
  UnreachedHosts hosts(job, 300 * kSecond);
  story(hosts);
  log_flush();
  _exit(0);
}

// Returns the lines of the log, without the words that all lines begin with. The story runs in a
// process of its own, because the level and the file of the log belong to the process and stay.
std::vector<std::string> lines_of(const Story& story) {
  const std::string file = testing::TempDir() + "r2ccl_unreached." + std::to_string(getpid());
  const pid_t process = fork();
  if (process == 0) write_lines(file, story);
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t words = line.find(" WARN ");
    lines.push_back(words == std::string::npos ? line : line.substr(words + 6));
  }
  (void)std::remove(file.c_str());
  return lines;
}

using Lines = std::vector<std::string>;

constexpr const char* kLostB =
    "rank 2 (host b, pid 43) is out of reach: no route; calls wait up to 300 s (R2CCL_CUTOFF_S)";

TEST(UnreachedHosts, AHostHasOneLineHoweverManyRanksItHas) {
  EXPECT_EQ(lines_of([](UnreachedHosts& hosts) {
              hosts.on_unreached(Rank(2), false, "no route", kStart);
              hosts.on_unreached(Rank(3), false, "no route", kStart + kSecond);
              hosts.on_unreached(Rank(2), false, "no route", kStart + 2 * kSecond);
            }),
            Lines{kLostB});
}

// The time counts from the first rank that was lost to the last that is reached.
TEST(UnreachedHosts, AHostIsReachedAgainWhenAllItsRanksAre) {
  EXPECT_EQ(lines_of([](UnreachedHosts& hosts) {
              hosts.on_unreached(Rank(2), false, "no route", kStart);
              hosts.on_unreached(Rank(3), false, "no route", kStart + kSecond);
              hosts.on_reached(Rank(2), kStart + 2 * kSecond);
              hosts.on_reached(Rank(3), kStart + 3 * kSecond + 500 * kMillisecond);
            }),
            (Lines{kLostB, "rank 2 (host b, pid 43) is reached again, after 3.5 s"}));
}

TEST(UnreachedHosts, ANewOutageIsToldAndTimedAnew) {
  EXPECT_EQ(lines_of([](UnreachedHosts& hosts) {
              hosts.on_unreached(Rank(2), false, "no route", kStart);
              hosts.on_reached(Rank(2), kStart + kSecond);
              hosts.on_reached(Rank(2), kStart + 2 * kSecond);
              hosts.on_unreached(Rank(3), false, "silence", kStart + 60 * kSecond);
              hosts.on_reached(Rank(3), kStart + 62 * kSecond);
            }),
            (Lines{kLostB, "rank 2 (host b, pid 43) is reached again, after 1.0 s",
                   "rank 3 (host b, pid 44) is out of reach: silence; calls wait up to 300 s "
                   "(R2CCL_CUTOFF_S)",
                   "rank 3 (host b, pid 44) is reached again, after 2.0 s"}));
}

// Its NICs are the cause, so the other hosts are not to blame.
TEST(UnreachedHosts, ThisHostHasOneLineForAllThatItDoesNotReach) {
  EXPECT_EQ(lines_of([](UnreachedHosts& hosts) {
              for (const int32_t peer : {2, 3, 4}) {
                hosts.on_unreached(Rank(peer), true, "nic0 is down", kStart);
              }
              hosts.on_reached(Rank(4), kStart + kSecond);
              hosts.on_reached(Rank(2), kStart + kSecond);
              hosts.on_reached(Rank(3), kStart + 2 * kSecond);
            }),
            (Lines{"this host (a) is out of reach: nic0 is down; calls wait up to 300 s "
                   "(R2CCL_CUTOFF_S)",
                   "this host (a) is reached again, after 2.0 s"}));
}

TEST(UnreachedHosts, APeerThatWasLostByBothEndsReachesBothAgain) {
  EXPECT_EQ(lines_of([](UnreachedHosts& hosts) {
              hosts.on_unreached(Rank(2), false, "no route", kStart);
              hosts.on_unreached(Rank(2), true, "nic0 is down", kStart);
              hosts.on_reached(Rank(2), kStart + kSecond);
            }),
            (Lines{kLostB,
                   "this host (a) is out of reach: nic0 is down; calls wait up to 300 s "
                   "(R2CCL_CUTOFF_S)",
                   "this host (a) is reached again, after 1.0 s",
                   "rank 2 (host b, pid 43) is reached again, after 1.0 s"}));
}

}  // namespace
}  // namespace r2ccl
