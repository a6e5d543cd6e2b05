// A faulty rank that has the run's key, and says of others what is not true: nobody else is
// slandered, and no operation stops.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "protocol/view/view_messages.h"
#include "runtime/link/notice.h"
#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kFaulty = 1;
constexpr int kHosts = 3;

class FaultyRank : public testing::Test {
 protected:
  FaultyRank() : cluster_(options()) {}
  static ClusterOptions options() {
    ClusterOptions options;
    options.hosts = kHosts;
    return options;
  }
  void say(int to, NoticeKind kind, uint64_t subject, std::span<const std::byte> body) {
    cluster_.node(kFaulty).engine().link(Rank(to))->send_notice(make_notice(kind, subject, body));
    cluster_.wake_all();
  }
  static std::string text(const NicName& nic) { return std::to_string(nic.host) + " " + nic.nic; }
  std::vector<std::string> accused(int rank) {
    std::vector<std::string> names;
    for (const Verdict& verdict : cluster_.node(rank).fault_reporter().verdicts()) {
      names.push_back(text(verdict.faulty));
    }
    return names;
  }
  uint64_t refused(int rank) { return cluster_.node(rank).runtime->job().query().refused(); }
  void ask_for_probes() {
    const auto body = encode(ProbeRequest{1, {0, 1, 2}});
    for (const int to : {0, 2}) {
      say(to, NoticeKind::question, query_subject(QueryTopic::probe, 1),
          encode(QueryMessage{QueryTopic::probe, 1, body}));
    }
    cluster_.world().run_for(kSecond);
  }
  // In ascending order.
  std::vector<uint32_t> hosts_that_probed() {
    std::vector<uint32_t> hosts;
    for (const std::string& notice : cluster_.node(kFaulty).notices) {
      if (notice.empty() || notice[0] != static_cast<char>(NoticeKind::answer)) continue;
      const auto message = decode_query_message(std::as_bytes(std::span(notice)).subspan(1));
      hosts.push_back(decode_probe_answer(message.value().body).value().host);
    }
    std::ranges::sort(hosts);
    return hosts;
  }
  void expect_no_verdict() {
    for (const int rank : {0, 2}) EXPECT_EQ(accused(rank), std::vector<std::string>());
  }

  Cluster cluster_;
};

TEST_F(FaultyRank, AnnouncesNoVerdictsForTheRankThatLocalises) {
  ASSERT_TRUE(cluster_.connect());
  cluster_.world().run_for(kSecond);
  for (const Scope scope : {Scope::nic, Scope::pair, Scope::rail, Scope::host, Scope::process}) {
    Verdict verdict;
    verdict.number = static_cast<uint32_t>(scope);
    verdict.scope = scope;
    verdict.faulty = {0, scope == Scope::host || scope == Scope::process ? "" : "nic0"};
    verdict.other = {2, "nic0"};
    verdict.process = Rank(0);
    verdict.kind = DownCause::carrier_lost;
    for (const int to : {0, 2}) say(to, NoticeKind::verdict, verdict.number, encode(verdict));
  }
  cluster_.world().run_for(20 * kSecond);
  expect_no_verdict();
}

TEST_F(FaultyRank, ObservesNothingInTheNameOfOthers) {
  ASSERT_TRUE(cluster_.connect());
  cluster_.world().run_for(kSecond);
  Observation o;
  o.observer = Rank(0);
  o.peer = Rank(2);
  o.near = {0, "nic0"};
  o.far = {2, "nic0"};
  o.cause = DownCause::carrier_lost;
  o.wall = 1;
  for (const int to : {0, 2}) say(to, NoticeKind::observation, 1, encode(o));
  // In its own name, but of NICs of another rank, or of none.
  o.observer = Rank(kFaulty);
  for (const int to : {0, 2}) say(to, NoticeKind::observation, 2, encode(o));
  o.near = {kFaulty, "nic77"};
  for (const int to : {0, 2}) say(to, NoticeKind::observation, 3, encode(o));
  // A rank that does not localise makes no verdict of a report that is right in form.
  o.near = {kFaulty, "nic0"};
  say(2, NoticeKind::observation, 4, encode(o));
  cluster_.world().run_for(20 * kSecond);
  expect_no_verdict();
}

// Two losing pairs would name the NIC that they share.
TEST_F(FaultyRank, ReportsNoLossesBetweenOthers) {
  ASSERT_TRUE(cluster_.connect());
  const LossCount clean{.sent = 200, .lost = 0, .periods = 16, .lossy = 0};
  LossCount loses{.sent = 200, .lost = 14, .periods = 16, .lossy = 8};
  for (int i = 0; i < 20; ++i) {
    LossReport report{Rank(kFaulty), 1, {}};
    report.samples.push_back({{0, "nic0"}, {2, "nic0"}, loses});
    report.samples.push_back({{0, "nic0"}, {kFaulty, "nic0"}, loses});
    report.samples.push_back({{kFaulty, "nic1"}, {0, "nic1"}, clean});
    report.samples.push_back({{kFaulty, "nic1"}, {2, "nic77"}, loses});
    report.samples.push_back({{kFaulty, "nic0"}, {2, "nic0"}, clean});
    say(0, NoticeKind::losses, 0, encode(report));
    cluster_.world().run_for(LossLocaliser::kReportInterval);
    loses.lossy = 8 + static_cast<uint32_t>(i % 8);
  }
  expect_no_verdict();
}

// A probe costs connections. Rank 0 knows that no higher rank localises. To rank 2 the faulty rank
// may be the lowest that is left.
TEST_F(FaultyRank, GetsProbesOnlyFromRanksForWhichItMayLocalise) {
  ASSERT_TRUE(cluster_.connect());
  cluster_.world().run_for(kSecond);
  ask_for_probes();
  EXPECT_EQ(hosts_that_probed(), std::vector<uint32_t>{2});
}

// A rank that leaves has told the others, so one of them may localise without it.
TEST_F(FaultyRank, MayLocaliseForARankThatLeaves) {
  ASSERT_TRUE(cluster_.connect());
  cluster_.world().run_for(kSecond);
  cluster_.node(0).runtime->begin_goodbye();
  ask_for_probes();
  EXPECT_EQ(hosts_that_probed(), (std::vector<uint32_t>{0, 2}));
}

TEST_F(FaultyRank, AnswersNoQuestionThatItWasNotAsked) {
  ASSERT_TRUE(cluster_.connect());
  cluster_.world().run_for(kSecond);
  ProbeAnswer answer;
  answer.host = kFaulty;
  answer.tried.push_back({{kFaulty, "nic0"}, {2, "nic0"}, false});
  const auto body = encode(answer);
  for (uint32_t number = 1; number <= 3; ++number) {
    say(0, NoticeKind::answer, query_subject(QueryTopic::probe, number),
        encode(QueryMessage{QueryTopic::probe, number, body}));
  }
  cluster_.world().run_for(kSecond);
  EXPECT_EQ(refused(0), 3u);
  expect_no_verdict();
}

// The answer to a question keeps a rank from its next collectives until whoever asked decides.
TEST_F(FaultyRank, StopsNoCollectiveByAskingForAView) {
  ASSERT_TRUE(cluster_.connect());
  AllReduceJob job(cluster_, 1 << 10);
  job.start(2000);
  cluster_.world().run_for(5 * kMillisecond);
  ViewAsk ask;
  ask.ballot = 100 * kHosts + kFaulty;
  ask.stage = ViewStage::propose;
  std::vector<HostRates> rates(kHosts, HostRates(2));
  rates[0][0] = {0, 0};
  ask.proposal = ViewRecord{1, 1000, View::of(rates).value()};
  std::vector<std::byte> body(2);
  const auto encoded = encode(ViewMessage(ask));
  body.insert(body.end(), encoded.begin(), encoded.end());
  for (const int to : {0, 2}) say(to, NoticeKind::view, 0, body);
  EXPECT_TRUE(
      cluster_.world().run_until([&] { return job.finished(); }, cluster_.now() + 60 * kSecond))
      << "a rank waits for a decision that does not come";
  EXPECT_EQ(job.wrong(), 0u);
  if (!job.finished()) job.abandon();
}

}  // namespace
}  // namespace r2ccl::sim
