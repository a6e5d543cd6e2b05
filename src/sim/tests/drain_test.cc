// A NIC is drained under a running AllReduce. No operation waits for it, no later event on it is a
// fault, and it returns as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/link/notice.h"
#include "sim/cluster/drain_job.h"

namespace r2ccl::sim {
namespace {

// Operations differ in time by no more than the times of frames.
constexpr double kNoise = 1.1;
// The longest ones of two jobs differ by more: any frame that is later gives the others another
// order. One that waits for a path takes 60 ms more, three times as long.
constexpr double kNoiseOfLongest = 1.3;

class Drain : public DrainJob {
 protected:
  // Begins a job, takes the NIC of rank 1 out of service, and lets the event come to it later.
  // Returns the longest operation from shortly before the event on.
  TimeNs longest_around(int operations, int nic, const std::function<void(SimNic&)>& event) {
    start(3, 3);
    begin(operations);
    run_for(100 * kMillisecond);
    drain_and_wait(1, nic);
    run_for(300 * kMillisecond);
    const TimeNs at = elapsed();
    event(cluster_->nic(1, nic));
    finish();
    return longest(at - 30 * kMillisecond, kNever / 2);
  }
  // Expects that none takes longer than in the same job without the event.
  void expect_no_delay(int operations, int nic, const std::function<void(SimNic&)>& event) {
    const TimeNs calm = longest_around(operations, nic, [](SimNic&) {});
    const TimeNs worst = longest_around(operations, nic, event);
    EXPECT_LT(static_cast<double>(worst), kNoiseOfLongest * static_cast<double>(calm))
        << worst << " against " << calm;
  }
};

TEST_F(Drain, InTheMiddleOfAnAllReduceNoOperationWaitsAndNoChunkIsSentTwice) {
  start(3, 4);
  begin(70);
  run_for(203 * kMillisecond);
  const TimeNs drained_at = elapsed();
  const TimeNs took = drain_and_wait(1, 2);
  EXPECT_LT(took, 20 * kMillisecond);
  const uint64_t carried = bytes_through(1, 2);
  const uint64_t frames = control_frames(1, 2);
  finish();
  // Heartbeats only: the cable could take any other frame with it.
  EXPECT_LT(control_frames(1, 2) - frames, 20u);
  EXPECT_GT(control_frames(1, 1) - frames, 100u);
  // Operations only take longer because one of four NICs is missing.
  const TimeNs settled_at = drained_at + 400 * kMillisecond;
  const TimeNs steady = longest(settled_at, kNever / 2);
  const TimeNs worst = longest(drained_at - 30 * kMillisecond, settled_at);
  EXPECT_LT(static_cast<double>(worst), kNoiseOfLongest * static_cast<double>(steady))
      << worst << " against " << steady;
  expect_no_events();
  EXPECT_EQ(retransmitted(), 0u);
  EXPECT_EQ(bytes_through(1, 2), carried) << "it carries nothing any more";
  EXPECT_TRUE(out_of_service(1, 2));
}

TEST_F(Drain, ThenPullingTheCableIsNoFaultAndDelaysNoOperation) {
  expect_no_delay(50, 2, [&](SimNic& nic) { cluster_->fabric().pull(nic); });
  expect_events(
      [](const PathEvent& event) { return event.planned && event.to == PathPhase::down; });
  EXPECT_FALSE(cluster_->node(1).events.empty()) << "its own paths are gone";
  EXPECT_EQ(retransmitted(), 0u);
  for_each_link([&](Link& link) {
    for (const auto& path : link.paths()) {
      EXPECT_EQ(path->history.downs, 0u);
      EXPECT_EQ(path->backoff.penalty_at(cluster_->now()), 0);
    }
  });
}

// Neither kernel is told: a switch's port is shut.
TEST_F(Drain, ThenABlackHoleIsNoFaultAndDelaysNoOperation) {
  expect_no_delay(80, 0, [&](SimNic& nic) { cluster_->fabric().hole(nic); });
  expect_events([](const PathEvent& event) {
    return event.to == PathPhase::suspect || (event.to == PathPhase::down && event.planned);
  });
  EXPECT_EQ(retransmitted(), 0u);
}

TEST_F(Drain, IsUndoneToLineRateWhetherOrNotTheCableWasPulled) {
  for (const bool pulled : {false, true}) {
    start(2, 3, 256 * 1024);  // 2 MB
    begin(70);
    run_for(200 * kMillisecond);
    const TimeNs before = median(0, elapsed());
    drain_and_wait(1, 2);
    if (pulled) cluster_->fabric().pull(cluster_->nic(1, 2));
    run_for(300 * kMillisecond);
    if (pulled) cluster_->fabric().fix(cluster_->nic(1, 2));
    run_for(500 * kMillisecond);
    EXPECT_TRUE(cluster_->all_paths_up()) << "it is kept ready";
    EXPECT_TRUE(out_of_service(1, 2)) << "but not used before the operator says so";
    const uint64_t carried = bytes_through(1, 2);
    set_drained(1, 2, false);
    const TimeNs undone_at = elapsed();
    finish();
    EXPECT_GT(bytes_through(1, 2), carried + 1'000'000);
    const TimeNs after = median(undone_at + 150 * kMillisecond, kNever / 2);
    EXPECT_GT(after, 0);
    EXPECT_LT(static_cast<double>(after), kNoise * static_cast<double>(before)) << pulled;
    EXPECT_EQ(retransmitted(), 0u);
  }
}

TEST_F(Drain, TheLastPathOfALinkIsUsedAgainWhenTheOthersFail) {
  start(3, 2);
  begin(50);
  run_for(100 * kMillisecond);
  drain_and_wait(1, 0);
  run_for(100 * kMillisecond);
  const uint64_t carried = bytes_through(1, 0);
  cluster_->fabric().pull(cluster_->nic(1, 1));
  run_for(300 * kMillisecond);
  EXPECT_GT(bytes_through(1, 0), carried + 1'000'000);
  EXPECT_EQ(tally(0, 1, 0).in_use, 1u);
  EXPECT_EQ(tally(0, 1, 0).peer, Rank(1));
  EXPECT_EQ(tally(1, 1, 0).in_use, 2u);
  EXPECT_FALSE(out_of_service(1, 0));
  // The link leaves it alone again as soon as possible.
  cluster_->fabric().fix(cluster_->nic(1, 1));
  EXPECT_TRUE(cluster_->world().run_until([&] { return out_of_service(1, 0); },
                                          cluster_->now() + 2 * kSecond));
  EXPECT_LT(job_->longest(), 100 * kMillisecond);
  finish();
}

// The chunks that were outstanding when it broke were retransmitted, so this is a fault like any
// other.
TEST_F(Drain, AFailureOfAPathThatIsStillInUseIsAFault) {
  start(3, 2);
  begin(50);
  run_for(100 * kMillisecond);
  drain_and_wait(1, 0);
  cluster_->fabric().pull(cluster_->nic(1, 1));
  run_for(300 * kMillisecond);
  forget_events();
  cluster_->fabric().pull(cluster_->nic(1, 0));
  run_for(300 * kMillisecond);
  const auto& events = cluster_->node(1).events;
  EXPECT_TRUE(std::ranges::any_of(events, [](const PathEvent& event) {
    return event.to == PathPhase::down && !event.planned;
  }));
  cluster_->fabric().fix(cluster_->nic(1, 0));
  cluster_->fabric().fix(cluster_->nic(1, 1));
  finish();
}

TEST_F(Drain, OfOneMoreNicWouldStrandALink) {
  start(3, 2);
  EXPECT_EQ(tally(1, 1, 0).stranded, 0u);
  EXPECT_EQ(tally(0, 1, 0).stranded, 0u);
  drain_and_wait(1, 0);
  EXPECT_EQ(tally(1, 1, 1).stranded, 2u);
  EXPECT_EQ(tally(0, 1, 1).stranded, 1u);
  // Nor may the counterpart of the remaining path be drained.
  EXPECT_EQ(tally(0, 0, 1).stranded, 1u);
  EXPECT_EQ(tally(0, 0, 1).stranded_peer, Rank(1));
  EXPECT_EQ(tally(2, 0, 1).stranded, 0u) << "ranks 0 and 2 have another";
}

TEST_F(Drain, OfTwoNicsOfDifferentHostsLeavesTheRest) {
  start(4, 3);
  begin(50);
  run_for(100 * kMillisecond);
  set_drained(1, 2, true);
  drain_and_wait(3, 0);
  ASSERT_TRUE(
      cluster_->world().run_until([&] { return out_of_service(1, 2); }, cluster_->now() + kSecond));
  const uint64_t carried = bytes_through(1, 2) + bytes_through(3, 0);
  cluster_->fabric().pull(cluster_->nic(1, 2));
  run_for(100 * kMillisecond);
  cluster_->fabric().pull(cluster_->nic(3, 0));
  finish();
  EXPECT_EQ(bytes_through(1, 2) + bytes_through(3, 0), carried);
  expect_events([](const PathEvent& event) { return event.planned; });
  EXPECT_EQ(retransmitted(), 0u);
  // Each end of a path drains it independently: it is used again when neither end's NIC is drained.
  set_drained(1, 2, false);
  run_for(100 * kMillisecond);
  EXPECT_FALSE(tally(0, 1, 2).out_of_service());
  EXPECT_TRUE(out_of_service(3, 0));
}

TEST_F(Drain, OfBothEndsOfAPathEndsWithTheSecondUndo) {
  start(2, 2);
  drain_and_wait(0, 1);
  drain_and_wait(1, 1);
  set_drained(0, 1, false);
  run_for(50 * kMillisecond);
  EXPECT_TRUE(out_of_service(1, 1));
  EXPECT_EQ(tally(0, 0, 1).marked, 0u);
  const uint64_t carried = bytes_through(0, 1);
  begin(20);
  finish();
  EXPECT_EQ(bytes_through(0, 1), carried);
  set_drained(1, 1, false);
  run_for(50 * kMillisecond);
  job_ = std::make_unique<AllReduceJob>(*cluster_, kDrainElements);
  begin(20);
  finish();
  EXPECT_GT(bytes_through(0, 1), carried + 1'000'000);
}

TEST_F(Drain, WhileAnotherPathIsDownLeavesTheThird) {
  start(3, 3);
  begin(50);
  run_for(100 * kMillisecond);
  cluster_->fabric().pull(cluster_->nic(1, 0));
  run_for(200 * kMillisecond);
  const uint64_t retransmitted_before = retransmitted();
  forget_events();
  drain_and_wait(1, 1);
  const uint64_t carried = bytes_through(1, 1);
  cluster_->fabric().pull(cluster_->nic(1, 1));
  finish();
  expect_events([](const PathEvent& event) { return event.planned; });
  EXPECT_EQ(retransmitted(), retransmitted_before);
  EXPECT_EQ(bytes_through(1, 1), carried);
}

// The outstanding chunks of a suspect path are lost or late. Either way they end, and so does the
// drain.
TEST_F(Drain, OfASuspectPathEndsWithTheSuspicion) {
  for (const bool heals : {true, false}) {
    start(3, 3);
    begin(40);
    run_for(100 * kMillisecond);
    cluster_->fabric().hole(cluster_->nic(1, 1));
    const auto suspected = [&] {
      return std::ranges::any_of(cluster_->node(1).events, [](const PathEvent& event) {
        return event.to == PathPhase::suspect && event.local_nic == NicId(1);
      });
    };
    ASSERT_TRUE(cluster_->world().run_until(suspected, cluster_->now() + kSecond));
    set_drained(1, 1, true);
    if (heals) cluster_->fabric().fix(cluster_->nic(1, 1));
    EXPECT_TRUE(cluster_->world().run_until([&] { return out_of_service(1, 1); },
                                            cluster_->now() + 2 * kSecond))
        << heals;
    cluster_->fabric().fix(cluster_->nic(1, 1));
    run_for(2 * kSecond);
    EXPECT_TRUE(out_of_service(1, 1));
    const uint64_t carried = bytes_through(1, 1);
    finish();
    EXPECT_EQ(bytes_through(1, 1), carried);
    set_drained(1, 1, false);
    job_ = std::make_unique<AllReduceJob>(*cluster_, kDrainElements);
    begin(20);
    finish();
    EXPECT_GT(bytes_through(1, 1), carried + 500'000);
  }
}

// A path that is late for a moment must not refuse an operator: the other NIC has been in service
// and will be again. Until then no operator is told that the cable may be pulled.
TEST_F(Drain, IsNotRefusedWhileTheOtherNicsPathsAreLateForAMoment) {
  start(2, 2);
  begin(40);
  run_for(100 * kMillisecond);
  cluster_->fabric().hole(cluster_->nic(1, 0));
  const auto suspected = [&] {
    return std::ranges::any_of(cluster_->node(1).events, [](const PathEvent& event) {
      return event.to == PathPhase::suspect && event.local_nic == NicId(0);
    });
  };
  ASSERT_TRUE(cluster_->world().run_until(suspected, cluster_->now() + kSecond));
  cluster_->fabric().fix(cluster_->nic(1, 0));
  EXPECT_EQ(tally(1, 1, 1).stranded, 0u);
  set_drained(1, 1, true);
  EXPECT_EQ(tally(1, 1, 1).in_use, 1u);
  EXPECT_FALSE(out_of_service(1, 1));
  EXPECT_TRUE(cluster_->world().run_until([&] { return out_of_service(1, 1); },
                                          cluster_->now() + 2 * kSecond));
  finish();
}

// A notice may arrive late, twice, or malformed. Each holds the whole state.
TEST_F(Drain, AMalformedNoticeOfItChangesNothing) {
  start(2, 2);
  drain_and_wait(0, 1);
  Link* link = cluster_->node(0).engine().link(Rank(1));
  link->send_notice(make_notice(NoticeKind::drained, 1, std::vector<std::byte>(7)));
  link->send_notice(make_notice(NoticeKind::drained, {}));
  run_for(50 * kMillisecond);
  EXPECT_TRUE(out_of_service(0, 1));
  // Bits of NICs that do not exist.
  link->send_notice(make_notice(NoticeKind::drained, std::vector<std::byte>(8, std::byte{0xff})));
  run_for(50 * kMillisecond);
  EXPECT_EQ(tally(1, 0, 0).in_use, 1u) << "all are, so all are used";
  begin(3);
  finish();
}

}  // namespace
}  // namespace r2ccl::sim
