// Notices between ranks while one of them reads nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "runtime/link/notice.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kHosts = 3;
constexpr int kDeaf = 2;
constexpr uint64_t kVerdicts = 2000;
constexpr int kMoves = 100;

class DeafRank : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ClusterOptions options;
    options.hosts = kHosts;
    cluster_.emplace(options);
    ASSERT_TRUE(cluster_->connect());
  }
  bool stops() const { return GetParam(); }
  void deafen() {
    SimHost* const host = cluster_->node(kDeaf).host;
    if (stops()) {
      cluster_->world().stop(cluster_->node(kDeaf).actor);
    } else {
      cluster_->fabric().partition(std::span(&host, 1));
    }
  }
  void undo() {
    if (stops()) {
      cluster_->world().resume(cluster_->node(kDeaf).actor);
    } else {
      cluster_->fabric().heal_partition();
    }
  }
  Link& link(int from, int to) { return *cluster_->node(from).engine().link(Rank(to)); }

  // Rank 0 localises, and announces a verdict.
  void announce(uint64_t number) {
    Verdict verdict;
    verdict.number = static_cast<uint32_t>(number);
    verdict.faulty = {1, "nic0"};
    verdict.kind = DownCause::silent;
    verdict.wall = static_cast<TimeNs>(number);
    cluster_->node(0).fault_reporter().on_verdict(Rank(0), encode(verdict));
    for (int peer = 1; peer < kHosts; ++peer) {
      link(0, peer).send_notice(make_notice(NoticeKind::verdict, number, encode(verdict)));
    }
  }
  std::vector<Verdict> announced(int rank) {
    std::vector<Verdict> list = cluster_->node(rank).fault_reporter().verdicts();
    std::erase_if(list, [](const Verdict& v) { return v.wall >= static_cast<TimeNs>(kVerdicts); });
    return list;
  }
  std::vector<Address> addresses_of_nic1(int rank, int of) {
    return cluster_->node(rank).engine().job().ranks()[static_cast<size_t>(of)].nics[1].addresses;
  }

  std::optional<Cluster> cluster_;
};

TEST_P(DeafRank, ARankThatReadNothingForLongLearnsTheLatestOfEverything) {
  deafen();
  cluster_->world().run_for(kSecond);
  link(0, kDeaf).send_notice(make_notice(NoticeKind::failure, std::vector(4, std::byte{9})));
  Address address = cluster_->nic(0, 1).addresses.front();
  for (int move = 0; move < kMoves; ++move) {
    address.bytes[3] = static_cast<uint8_t>(100 + move);
    cluster_->fabric().set_addresses(cluster_->nic(0, 1), {address});
    for (uint64_t i = 0; i < kVerdicts / kMoves; ++i) {
      announce(static_cast<uint64_t>(move) * (kVerdicts / kMoves) + i);
    }
    cluster_->world().run_for(20 * kMillisecond);
  }
  EXPECT_GE(link(0, kDeaf).notices_pending(), kVerdicts);
  EXPECT_LE(link(0, kDeaf).notices_pending(), kVerdicts + 20) << "one of each slot is kept";
  undo();
  ASSERT_TRUE(cluster_->world().run_until([&] { return link(0, kDeaf).notices_delivered(); },
                                          cluster_->now() + 20 * kSecond));
  cluster_->world().run_for(kSecond);
  const std::string failure = std::string(1, '\1') + std::string(4, '\11');
  EXPECT_EQ(std::ranges::count(cluster_->node(kDeaf).notices, failure), 1);
  ASSERT_EQ(announced(0).size(), kVerdicts);
  EXPECT_EQ(announced(1), announced(0));
  EXPECT_EQ(announced(kDeaf), announced(0));
  EXPECT_EQ(addresses_of_nic1(kDeaf, 0), std::vector{address});
}

INSTANTIATE_TEST_SUITE_P(Sim, DeafRank, testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "Stopped" : "CutOff");
});

// More requests than a rank runs at a time.
TEST(Notices, EveryProbeRequestIsAnswered) {
  constexpr uint32_t kRequests = 30;
  ClusterOptions options;
  options.hosts = kHosts;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.connect());
  for (uint32_t number = 1; number <= kRequests; ++number) {
    const auto body = encode(ProbeRequest{number, {0, 1, 2}});
    cluster.node(1).runtime->job().query().on_question(
        Rank(0), encode(QueryMessage{QueryTopic::probe, number, body}));
  }
  cluster.wake_all();
  cluster.world().run_for(kSecond);
  std::set<uint32_t> answered;
  for (const std::string& notice : cluster.node(0).notices) {
    if (notice.empty() || notice[0] != static_cast<char>(NoticeKind::answer)) continue;
    const auto message = decode_query_message(std::as_bytes(std::span(notice)).subspan(1));
    ASSERT_TRUE(message.ok());
    const auto answer = decode_probe_answer(message.value().body);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer.value().tried.size(), 4u);
    answered.insert(message.value().number);
  }
  EXPECT_EQ(answered.size(), kRequests);
}

}  // namespace
}  // namespace r2ccl::sim
