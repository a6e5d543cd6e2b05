// Faults while a NIC is being drained: of that NIC, of the only other NIC, of a rank. At every
// moment of the drain no operation waits longer than the fault itself costs, and no element is
// wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/limits.h"
#include "sim/cluster/drain_job.h"

namespace r2ccl::sim {
namespace {

// Bounds one operation, which takes 50 ms over the remaining NIC. A last path would get half a
// second before it counts as silent, but the drained path is another one, on standby.
constexpr TimeNs kFaultStall = 200 * kMillisecond;
// A healed NIC is tried again within 250 ms.
constexpr TimeNs kReturned = 2 * kSecond;
// Bytes that validate reopened paths.
constexpr uint64_t kProbeBytes = 100'000;

using Fault = void (Fabric::*)(SimNic&);
constexpr Fault kFaults[] = {&Fabric::pull, &Fabric::down, &Fabric::hole};

class DrainFault : public DrainJob {
 protected:
  // The beginning of the drain, in microseconds after the fault.
  static constexpr int kMoments[] = {-5000, -300, -30, 0, 300, 30'000};

  // Drains rank 1's NIC `drained` and breaks its NIC `broken`, `moment` apart.
  void drain_and_break(int drained, int broken, Fault fault, int moment) {
    const auto apart = static_cast<TimeNs>(moment) * kMicrosecond;
    const TimeNs at_fault = 23 * kMillisecond;
    at(at_fault, [this, broken, fault] { (cluster_->fabric().*fault)(cluster_->nic(1, broken)); });
    at(at_fault + apart, [this, drained] { set_drained(1, drained, true); });
  }
  void expect_out_of_service_soon(int owner, int nic) {
    EXPECT_TRUE(cluster_->world().run_until([&] { return out_of_service(owner, nic); },
                                            cluster_->now() + kReturned));
  }
  void expect_used_after_undo(int owner, int nic) {
    set_drained(owner, nic, false);
    const uint64_t carried = bytes_through(owner, nic);
    job_ = std::make_unique<AllReduceJob>(*cluster_, kDrainElements);
    begin(10);
    finish();
    EXPECT_GT(bytes_through(owner, nic), carried + 500'000);
  }
};

TEST_F(DrainFault, OfThatVeryNicEndsTheDrainAtAnyMoment) {
  for (const Fault fault : kFaults) {
    for (const int moment : kMoments) {
      start(3, 3);
      begin(30);
      drain_and_break(1, 1, fault, moment);
      run_for(100 * kMillisecond);
      expect_out_of_service_soon(1, 1);
      const uint64_t carried = bytes_through(1, 1);
      finish();
      EXPECT_LT(job_->longest(), kFaultStall) << moment;
      cluster_->fabric().fix(cluster_->nic(1, 1));
      run_for(kReturned);
      EXPECT_TRUE(cluster_->all_paths_up()) << "it is kept ready, " << moment;
      EXPECT_TRUE(out_of_service(1, 1)) << moment;
      EXPECT_LT(bytes_through(1, 1), carried + kProbeBytes) << moment;
      expect_used_after_undo(1, 1);
    }
  }
}

TEST_F(DrainFault, OfTheOnlyOtherNicBringsTheDrainedOneBackAtAnyMoment) {
  for (const Fault fault : kFaults) {
    for (const int moment : kMoments) {
      start(3, 2);
      begin(30);
      drain_and_break(1, 0, fault, moment);
      run_for(300 * kMillisecond);
      EXPECT_FALSE(out_of_service(1, 1)) << "do not pull this cable, " << moment;
      EXPECT_EQ(tally(1, 1, 1).in_use, 2u) << moment;
      const uint64_t carried = bytes_through(1, 1);
      run_for(300 * kMillisecond);
      EXPECT_GT(bytes_through(1, 1), carried + 1'000'000) << moment;
      cluster_->fabric().fix(cluster_->nic(1, 0));
      expect_out_of_service_soon(1, 1);
      finish();
      EXPECT_LT(job_->longest(), kFaultStall) << moment;
      expect_used_after_undo(1, 1);
    }
  }
}

// The remaining paths of a link may end at a NIC that breaks at the other host.
TEST_F(DrainFault, OfTheCounterpartAtTheOtherHostBringsItBack) {
  for (const Fault fault : kFaults) {
    start(2, 2);
    begin(60);
    run_for(23 * kMillisecond);
    drain_and_wait(0, 1);
    (cluster_->fabric().*fault)(cluster_->nic(1, 0));
    run_for(kSecond);
    EXPECT_EQ(tally(0, 0, 1).in_use, 1u);
    EXPECT_EQ(tally(1, 0, 1).in_use, 1u);
    cluster_->fabric().fix(cluster_->nic(1, 0));
    expect_out_of_service_soon(0, 1);
    finish();
    EXPECT_LT(job_->longest(), kFaultStall);
  }
}

// The drained NIC breaks too, after the other: then that is a fault, and the link uses the NIC that
// heals first.
TEST_F(DrainFault, OfAllNicsIsOverWhenAnyOneHeals) {
  for (const int healed : {0, 1}) {
    start(3, 2);
    begin(40);
    run_for(23 * kMillisecond);
    drain_and_wait(1, 1);
    cluster_->fabric().pull(cluster_->nic(1, 0));
    run_for(100 * kMillisecond);
    cluster_->fabric().pull(cluster_->nic(1, 1));
    run_for(300 * kMillisecond);
    cluster_->fabric().fix(cluster_->nic(1, healed));
    run_for(kReturned);
    finish();
    EXPECT_EQ(tally(1, 1, 1).up, healed == 1 ? 2u : 0u);
    EXPECT_EQ(out_of_service(1, 1), healed == 0);
    cluster_->fabric().fix(cluster_->nic(1, 1 - healed));
    expect_out_of_service_soon(1, 1);
  }
}

// The operator gets the answers of the living ranks in bounded time, and learns which rank is dead.
TEST_F(DrainFault, OfARankIsReportedToTheOperator) {
  for (const int victim : {1, 2}) {
    for (const TimeNs later : {0, 30, 100, 300, 3000}) {
      start(3, 3);
      std::string answer;
      const std::string line = "drain start nic1 h1\n";
      auto& node = cluster_->node(0);
      begin(1000);
      run_for(23 * kMillisecond);
      node.in_turn = [&] {
        if (answer.empty()) answer = node.drains().answer(1, line).value_or("");
      };
      const TimeNs asked_at = cluster_->now();
      cluster_->wake_all();
      run_for(later * kMicrosecond);
      job_->abandon();
      cluster_->world().kill(*cluster_->node(victim).host);
      EXPECT_TRUE(cluster_->world().run_until([&] { return !answer.empty(); },
                                              asked_at + 2 * limits::kStatusQueryTimeMax));
      const auto is_end = [&](const auto& end) {
        return end == std::pair(Rank(victim), PeerEnd::dead);
      };
      EXPECT_TRUE(cluster_->world().run_until(
          [&] { return std::ranges::any_of(node.ends, is_end); }, cluster_->now() + 5 * kSecond))
          << later;
      // From then on the dead rank delays no request.
      answer.clear();
      node.in_turn = [&] {
        if (answer.empty()) answer = node.drains().answer(2, "drain check nic1 h1\n").value_or("");
      };
      const TimeNs checked_at = cluster_->now();
      cluster_->wake_all();
      EXPECT_TRUE(
          cluster_->world().run_until([&] { return !answer.empty(); }, checked_at + kSecond));
      EXPECT_NE(answer.find("\"presence\":\"dead\""), std::string::npos) << answer;
      // The drain may have been refused, once no path led to the dead rank any more.
      const bool drained = cluster_->node(1).engine().nics().drained().contains(NicId(1));
      const auto follows = [&] { return tally(0, 1, 1).out_of_service() == drained; };
      EXPECT_TRUE(victim == 1 || cluster_->world().run_until(follows, cluster_->now() + kSecond))
          << later;
      EXPECT_EQ(job_->wrong(), 0u);
      node.in_turn = nullptr;
    }
  }
}

// Like a communicator that takes over the drained NICs of its process: its paths come up while the
// drain is already in force.
TEST_F(DrainFault, NoneIsNeededForADrainBeforePathsAreThere) {
  ClusterOptions options;
  options.hosts = 3;
  options.nics = 3;
  cluster_ = std::make_unique<Cluster>(options);
  set_drained(1, 1, true);
  ASSERT_TRUE(cluster_->connect());
  job_ = std::make_unique<AllReduceJob>(*cluster_, kDrainElements);
  run_for(100 * kMillisecond);
  EXPECT_TRUE(out_of_service(1, 1));
  forget_events();
  const uint64_t carried = bytes_through(1, 1);
  begin(20);
  finish();
  EXPECT_EQ(bytes_through(1, 1), carried);
  EXPECT_EQ(retransmitted(), 0u);
  expect_no_events();
  expect_used_after_undo(1, 1);
}

}  // namespace
}  // namespace r2ccl::sim
