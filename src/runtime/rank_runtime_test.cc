// Ranks without threads: two or three runtimes on a simulated fabric, each turn called by hand or
// by the World. Whole jobs in all weathers are in sim/trial.
#include "runtime/rank_runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "runtime/rank_report.h"
#include "runtime/rank_status.h"
#include "sim/cluster/cluster.h"

namespace r2ccl {
namespace {

using sim::Cluster;
using sim::ClusterOptions;
using sim::SimRank;

constexpr TimeNs kSoon = 200 * kMillisecond;

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++found;
  return found;
}

class Ranks : public testing::Test {
 protected:
  void start(int ranks, bool nics_write = false) {
    ClusterOptions options;
    options.world.network.nics_write = nics_write;
    options.hosts = ranks;
    cluster_.emplace(options);
    ASSERT_TRUE(cluster_->connect());
    values_.assign(static_cast<size_t>(ranks), std::vector<int32_t>(100, 1));
    ended_.resize(static_cast<size_t>(ranks));
  }
  RankRuntime& rank(int number) { return *cluster_->node(number).runtime; }

  uint64_t all_reduce(int number, ReduceOp op = ReduceOp::sum,
                      const RankRuntime::MaybeBad& bad = {}) {
    auto& values = values_[static_cast<size_t>(number)];
    Operation call;
    call.key.collective = Collective::all_reduce;
    call.key.type = DataType::int32;
    call.key.op = op;
    call.key.rank_count = cluster_->size();
    call.key.count = values.size();
    call.input = call.output = reinterpret_cast<std::byte*>(values.data());
    call.done = [this, number](const Status& status) {
      ended_[static_cast<size_t>(number)] = status;
    };
    const uint64_t made = rank(number).start(std::move(call), bad);
    cluster_->wake_all();
    return made;
  }
  bool within(TimeNs time, const std::function<bool()>& done) {
    return cluster_->world().run_until(done, cluster_->now() + time);
  }
  bool all_ended() {
    return std::ranges::all_of(ended_, [](const auto& each) { return each.has_value(); });
  }
  bool all_failed() {
    for (int number = 0; number < cluster_->size(); ++number) {
      if (rank(number).failure().ok()) return false;
    }
    return true;
  }
  std::string why(int number) { return rank(number).failure().message(); }

  std::vector<std::vector<int32_t>> values_;
  std::vector<std::optional<Status>> ended_;  // by rank: how its latest call ended
  std::optional<Cluster> cluster_;            // last: its end may still write to these
};

TEST_F(Ranks, RunACollectiveAndLeaveInOrder) {
  start(3);
  for (int number = 0; number < 3; ++number) EXPECT_EQ(all_reduce(number), 1U);
  ASSERT_TRUE(within(kSoon, [this] { return all_ended(); }));
  for (int number = 0; number < 3; ++number) {
    EXPECT_TRUE(ended_[static_cast<size_t>(number)]->ok());
    EXPECT_EQ(values_[static_cast<size_t>(number)], std::vector<int32_t>(100, 3));
    EXPECT_EQ(rank(number).operations().completed(), 1U);
    cluster_->node(number).begin_goodbye();
  }
  EXPECT_EQ(rank(0).goodbyes_missing().size(), 2U);
  EXPECT_TRUE(within(kSoon, [this] {
    return rank(0).goodbye_done() && rank(1).goodbye_done() && rank(2).goodbye_done();
  }));
  for (int number = 0; number < 3; ++number) EXPECT_EQ(why(number), "");
}

TEST_F(Ranks, AllFailSoonWhenOneAborts) {
  start(3);
  all_reduce(0);  // rank 0 waits for the others
  rank(1).abort("enough");
  cluster_->wake_all();
  EXPECT_EQ(rank(1).failure().code(), Code::aborted);
  ASSERT_TRUE(within(kSoon, [this] { return all_failed(); }));
  for (const int number : {0, 2}) {
    EXPECT_EQ(rank(number).failure().code(), Code::remote);
    EXPECT_NE(why(number).find("rank 1 (host h1, pid 0) aborted: enough"), std::string::npos)
        << why(number);
  }
  ASSERT_TRUE(ended_[0].has_value());
  EXPECT_EQ(ended_[0]->code(), Code::remote);
  EXPECT_TRUE(within(kSoon, [this] { return rank(1).failure_known(); }));
  all_reduce(1);
  EXPECT_EQ(ended_[1]->code(), Code::aborted) << "a call after the failure ends at once";
}

TEST_F(Ranks, AllReportCallsThatDoNotMatch) {
  start(3);
  for (int number = 0; number < 3; ++number) {
    all_reduce(number, number == 1 ? ReduceOp::max : ReduceOp::sum);
  }
  ASSERT_TRUE(within(kSoon, [this] { return all_failed() && all_ended(); }));
  for (int number = 0; number < 3; ++number) {
    EXPECT_EQ(rank(number).failure().code(), Code::invalid_usage);
    EXPECT_NE(why(number).find(" not match"), std::string::npos) << why(number);
  }
  EXPECT_NE(why(0).find("AllReduce 1 (100 int32, max)"), std::string::npos);
}

TEST_F(Ranks, ARankThatIsNeededAndLeavesIsReported) {
  start(2);
  all_reduce(0);
  cluster_->node(1).begin_goodbye();
  ASSERT_TRUE(within(kSoon, [this] { return all_failed(); }));
  EXPECT_NE(why(0).find("rank 1 (host h1, pid 0) has left"), std::string::npos) << why(0);
  EXPECT_EQ(rank(0).failure().code(), Code::remote);
  EXPECT_EQ(rank(1).failure().code(), Code::invalid_usage) << "the error is that of rank 1";
  EXPECT_TRUE(rank(0).abandoned() && rank(1).abandoned());
}

TEST_F(Ranks, ACallWithMemoryThatCannotBeTouchedEndsTheJob) {
  start(2);
  const auto* start_of_memory = reinterpret_cast<const std::byte*>(values_.data());
  all_reduce(0, ReduceOp::sum, BadMemory{start_of_memory, Access::read});
  ASSERT_TRUE(ended_[0].has_value());
  EXPECT_EQ(ended_[0]->code(), Code::invalid_argument);
  EXPECT_TRUE(within(kSoon, [this] { return all_failed(); }));
  EXPECT_EQ(rank(1).failure().code(), Code::remote);
}

TEST_F(Ranks, ASendToItselfWithoutItsRecvIsAnErrorAtTheEnd) {
  start(2);
  const std::vector<std::byte> bytes(4);
  rank(0).start(Operation::send(Rank(0), bytes, DataType::int32,
                                [this](const Status& status) { ended_[0] = status; }));
  rank(0).begin_goodbye();
  EXPECT_EQ(rank(0).failure().code(), Code::invalid_usage);
  EXPECT_FALSE(rank(0).leaving());
  ASSERT_TRUE(ended_[0].has_value());
  EXPECT_EQ(ended_[0]->code(), Code::invalid_usage);
}

TEST_F(Ranks, ARankOutOfMemoryEndsItsCallsAtOnceAndTellsTheOthers) {
  start(3);
  for (const int number : {0, 1}) all_reduce(number);
  rank(1).fail_by_exception(std::bad_alloc());
  EXPECT_TRUE(rank(1).halted());
  EXPECT_EQ(rank(1).failure().code(), Code::system);
  ASSERT_TRUE(ended_[1].has_value());
  EXPECT_EQ(*ended_[1], rank(1).failure());
  cluster_->wake_all();
  EXPECT_TRUE(within(kSoon, [this] { return all_failed() && rank(1).failure_known(); }));
  for (const int number : {0, 2}) {
    EXPECT_EQ(rank(number).failure().code(), Code::remote);
    EXPECT_EQ(rank(number).failure().ranks(), std::vector{Rank(1)});
    EXPECT_NE(why(number).find("has run out of memory"), std::string::npos) << why(number);
  }
  EXPECT_EQ(*ended_[0], rank(0).failure());
}

TEST_F(Ranks, AFailureOfARankThatHasLeftInOrderFailsNoOther) {
  start(3);
  for (const int number : {0, 1, 2}) rank(number).begin_goodbye();
  cluster_->wake_all();
  ASSERT_TRUE(within(kSoon, [this] { return rank(0).goodbye_done() && rank(1).goodbye_done(); }));
  rank(1).fail_by_exception(std::bad_alloc());
  cluster_->wake_all();
  EXPECT_TRUE(within(kSoon, [this] { return rank(1).failure_known(); }));
  cluster_->world().run_for(kSoon);
  for (const int number : {0, 2}) EXPECT_TRUE(rank(number).failure().ok()) << why(number);
}

// NICs that read sent bytes where they are must not do so once the caller has its memory again.
TEST_F(Ranks, ARankOutOfMemoryLeavesNoBytesInMemoryThatItGivesBack) {
  start(2, true);
  std::vector<std::byte> source(200'000, std::byte{1});
  std::vector<std::byte> got(source.size());
  rank(1).start(Operation::receive(Rank(0), got, DataType::int8, [](const Status&) {}));
  rank(0).start(Operation::send(Rank(1), source, DataType::int8,
                                [&](const Status&) { std::ranges::fill(source, std::byte{2}); }));
  cluster_->wake_all();
  cluster_->world().run_for(2 * kMillisecond);
  EXPECT_EQ(source[0], std::byte{1}) << "the chunks are on their way";
  rank(0).fail_by_exception(std::bad_alloc());
  EXPECT_EQ(source[0], std::byte{2});
  EXPECT_TRUE(within(kSoon, [this] { return all_failed(); }));
  EXPECT_EQ(std::ranges::count(got, std::byte{2}), 0);
  EXPECT_GT(std::ranges::count(got, std::byte{1}), 0);
}

TEST_F(Ranks, ABugInsideARankIsToldAsOne) {
  start(2);
  rank(1).fail_by_exception(std::runtime_error("a bug"));
  cluster_->wake_all();
  EXPECT_EQ(rank(1).failure().code(), Code::internal);
  EXPECT_TRUE(within(kSoon, [this] { return all_failed(); }));
  EXPECT_NE(why(0).find("has failed inside r2ccl: a bug"), std::string::npos) << why(0);
}

RankInfo info_of(int32_t rank, std::vector<NicInfo> nics) {
  RankInfo info;
  info.rank = Rank(rank);
  info.host[0] = static_cast<std::byte>(rank + 1);
  info.nics = std::move(nics);
  return info;
}

// Rank 2 has no NIC, and the link to rank 0 is there already. No part hears its events, and peers
// must find this rank gone.
TEST(RankStart, AFailureClosesTheListenersAndEndsTheLinks) {
  sim::VirtualClock clock;
  sim::Fabric fabric(1, clock);
  sim::SimHost& host = fabric.add_host("host");
  fabric.add_nic(host, {.name = "nic0"});
  ProcessEngine process(host, clock);
  RankObserver observer;
  RankOptions options;
  options.self = Rank(1);
  options.rank_count = 3;
  options.engine.nonce = [] { return std::array<std::byte, kNonceBytes>(); };
  RankRuntime runtime(process, std::move(options), observer);
  ASSERT_TRUE(runtime.open().ok());
  RankInfo own = info_of(1, {});
  runtime.describe(own);
  EXPECT_FALSE(host.machine().listeners.empty());
  NicInfo neighbour = own.nics[0];
  neighbour.addresses[0].bytes[3] ^= 64;
  const Status status = runtime.start({{info_of(0, {neighbour}), own, info_of(2, {})}, {}});
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(runtime.engine().link(Rank(0)), nullptr);
  EXPECT_TRUE(runtime.halted());
  EXPECT_TRUE(host.machine().listeners.empty());
  process.progress(0);
  EXPECT_EQ(process.next_timeout(), kNever);
}

TEST_F(Ranks, TheStatusOfTheJobNamesEveryRankAndWhatACallWaitsFor) {
  start(3);
  all_reduce(0);
  cluster_->world().run_for(3 * kSecond);
  const std::string report = report_text(rank(0));
  EXPECT_EQ(count(report, "\"call\":\"AllReduce 1 (100 int32, sum)\""), 1);
  EXPECT_EQ(count(report, "\"waits_for\":\"rank "), 1);

  std::optional<std::string> answer;
  SimRank& asked = cluster_->node(2);
  asked.in_turn = [&] {
    if (!answer) answer = asked.runtime->status().job_status();
  };
  cluster_->wake_all();
  ASSERT_TRUE(within(kSecond, [&] { return answer.has_value(); }));
  EXPECT_EQ(count(*answer, "\"presence\":\"answered\""), 3);
  asked.in_turn = nullptr;
}

}  // namespace
}  // namespace r2ccl
