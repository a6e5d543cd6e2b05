// A rank that computes or is stopped, a host that is cut off, and a slow network: what the log and
// the status of the other ranks say in the first second of a call, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kHosts = 3;
constexpr int kLate = 2;
using Lines = std::vector<std::string>;

class Waits : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(log_configure(LogLevel::warn, "").ok()); }
  void TearDown() override { ASSERT_TRUE(log_configure(LogLevel::none, "").ok()); }

  void connect(uint64_t rate_bytes_per_s = 31'250'000) {
    ClusterOptions options;
    options.hosts = kHosts;
    options.rate_bytes_per_s = rate_bytes_per_s;
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->connect());
  }
  Cluster& cluster() { return *cluster_; }

  void all_reduce(int rank, size_t bytes) {
    memory_.emplace_back(bytes);
    Operation call;
    call.key.collective = Collective::all_reduce;
    call.key.type = DataType::int32;
    call.key.rank_count = kHosts;
    call.key.count = bytes / sizeof(int32_t);
    call.input = call.output = memory_.back().data();
    call.done = [this](const Status& status) { ended_ += status.ok() ? 1 : 0; };
    cluster().node(rank).runtime->start(std::move(call));
    cluster().wake_all();
  }
  void all_reduce_on_all(size_t bytes) {
    for (int rank = 0; rank < kHosts; ++rank) all_reduce(rank, bytes);
  }
  bool all_end(TimeNs limit) {
    return cluster().world().run_until([&] { return ended_ == kHosts; }, cluster().now() + limit);
  }

  // Returns the words about the rank that is waited for, of each line that names one.
  Lines lines_of(TimeNs duration) {
    testing::internal::CaptureStderr();
    cluster().world().run_for(duration);
    log_flush();
    std::istringstream in(testing::internal::GetCapturedStderr());
    Lines lines;
    for (std::string line; std::getline(in, line);) {
      const size_t at = line.find("waiting for ");
      if (at != std::string::npos) lines.push_back(line.substr(at));
    }
    return lines;
  }
  // Requires a call that has just begun on the other ranks. Checks the line of each of them.
  void expect_one_line_each(const std::string& words) {
    EXPECT_EQ(lines_of(890 * kMillisecond), Lines());
    const std::string line = "waiting for rank 2 (host h2, pid 0), " + words + " (0.9 s so far)";
    EXPECT_EQ(lines_of(110 * kMillisecond), Lines(kHosts - 1, line));
    EXPECT_EQ(lines_of(30 * kSecond), Lines()) << "once for each call";
  }
  // Returns what the status of a rank says of its call.
  std::string waits_for(int rank) {
    const RankWaits& waits = cluster().node(rank).runtime->waits();
    const std::vector<RankWaits::Waiting> calls = waits.calls();
    return calls.size() == 1 ? waits.words_for(calls.front().blocker) : "no call";
  }

 private:
  std::deque<std::vector<std::byte>> memory_;
  std::unique_ptr<Cluster> cluster_;
  int ended_ = 0;
};

TEST_F(Waits, NameARankThatComputes) {
  connect();
  for (const int rank : {0, 1}) all_reduce(rank, 40'000);
  expect_one_line_each("which has called no collective yet");
  all_reduce(kLate, 40'000);
  EXPECT_TRUE(all_end(kSecond));
}

TEST_F(Waits, NameAStoppedRankWhoseKernelAnswers) {
  connect();
  cluster().world().stop(cluster().node(kLate).actor);
  for (const int rank : {0, 1}) all_reduce(rank, 40'000);
  expect_one_line_each(
      "which does not answer, though its host's kernel does: it is stopped, swapping, or has no "
      "CPU time");
  cluster().world().resume(cluster().node(kLate).actor);
  all_reduce(kLate, 40'000);
  EXPECT_TRUE(all_end(kSecond));
}

TEST_F(Waits, NameARankThatIsStoppedAmidTheCall) {
  connect();
  all_reduce_on_all(4'000'000);
  cluster().world().run_for(20 * kMillisecond);
  cluster().world().stop(cluster().node(kLate).actor);
  const Lines lines = lines_of(980 * kMillisecond);
  ASSERT_EQ(lines.size(), size_t{kHosts - 1});
  for (const std::string& line : lines) {
    EXPECT_TRUE(
        line.starts_with("waiting for rank 2 (host h2, pid 0), which does not answer, "
                         "though its host's kernel does: "))
        << line;
  }
  cluster().world().resume(cluster().node(kLate).actor);
  EXPECT_TRUE(all_end(2 * kSecond));
}

TEST_F(Waits, NameARankWhoseHostIsCutOff) {
  connect();
  for (SimNic* nic : cluster().node(kLate).nics) cluster().fabric().hole(*nic);
  cluster().fabric().hole(*cluster().node(kLate).management);
  for (const int rank : {0, 1}) all_reduce(rank, 40'000);
  expect_one_line_each("which does not answer, nor does its host");
}

// The call takes seconds, because the network is slow, and no rank is to blame for that.
TEST_F(Waits, NameNoRankWhileTheNetworkIsSlow) {
  connect(500'000);
  all_reduce_on_all(4'000'000);
  EXPECT_EQ(lines_of(4 * kSecond), Lines());
  EXPECT_NE(waits_for(0), "no call");
  EXPECT_EQ(lines_of(60 * kSecond), Lines());
  EXPECT_TRUE(all_end(0));
}

// The network's only fault is the NIC that has failed: the links use the other.
TEST_F(Waits, NameNoRankWhileANicFails) {
  connect(500'000);
  all_reduce_on_all(4'000'000);
  cluster().world().run_for(500 * kMillisecond);
  cluster().fabric().hole(cluster().nic(kLate, 0));
  EXPECT_EQ(lines_of(60 * kSecond), Lines());
  EXPECT_TRUE(all_end(0));
}

TEST_F(Waits, AreInTheStatusFromTheFirstSecond) {
  connect();
  for (const int rank : {0, 1}) all_reduce(rank, 40'000);
  cluster().world().run_for(300 * kMillisecond);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(waits_for(rank), "rank 2 (host h2, pid 0), which has called no collective yet");
  }
  EXPECT_EQ(waits_for(kLate), "no call");
}

}  // namespace
}  // namespace r2ccl::sim
