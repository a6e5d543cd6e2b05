// The rank that localises dies while a fault is to be localised: the next rank goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/tests/contexts.h"

namespace r2ccl::sim {
namespace {

// After the death, or after the time at which the verdict is due without one.
constexpr TimeNs kLate = 100 * kMillisecond;

using Break = void (*)(Fabric&, SimNic&);
void black_hole(Fabric& fabric, SimNic& nic) {
  fabric.hole(nic);
}
void hole_for_large_packets(Fabric& fabric, SimNic& nic) {
  fabric.mtu_hole(nic, 1000);
}

// The first communicator has all ranks, and fails with rank 0. Another one of the others works on.
class Takeover {
 public:
  // Returns whether the rank that localises is to die now.
  using Dies = std::function<bool(Takeover&)>;

  explicit Takeover(int hosts) : cluster_(options(hosts)) {
    EXPECT_TRUE(cluster_.connect());
    std::vector<int> others;
    for (int rank = 1; rank < hosts; ++rank) others.push_back(rank);
    others_.emplace(cluster_, 77, others);
    others_->begin_all();
    cluster_.world().run_for(20 * kMillisecond);
  }

  // Breaks a NIC of host 2. Returns whether all others have the verdict in the end.
  bool run(Break breaks, const Dies& dies) {
    broken_at_ = cluster_.now();
    notices_before_ = cluster_.node(0).notices.size();
    breaks(cluster_.fabric(), cluster_.nic(2, 1));
    const auto over = [&] {
      if (killed_at_ == 0 && dies(*this)) {
        cluster_.world().kill(*cluster_.node(0).host);
        killed_at_ = cluster_.now();
      }
      work();
      if (known_at_ == 0 && all_know()) known_at_ = cluster_.now();
      return known_at_ != 0;
    };
    if (!cluster_.world().run_until(over, cluster_.now() + 10 * kSecond)) return false;
    // A second verdict on the fault would come in this time.
    cluster_.world().run_until([this] { return work(), false; }, cluster_.now() + kSecond);
    return true;
  }
  bool died() const { return killed_at_ != 0; }
  TimeNs since_break() { return cluster_.now() - broken_at_; }
  size_t notices() { return cluster_.node(0).notices.size() - notices_before_; }
  TimeNs known_after() const { return known_at_ - broken_at_; }
  // `due`: the time from the fault to its verdict where no rank dies.
  void expect_one_verdict(TimeNs due, const std::string& text) {
    EXPECT_LE(known_at_ - std::max(killed_at_, broken_at_ + due), kLate) << text;
    for (int rank = 1; rank < ranks(); ++rank) {
      const std::vector<Verdict> verdicts = of_nics(rank);
      ASSERT_EQ(verdicts.size(), 1u) << text << ", rank " << rank;
      EXPECT_EQ(verdicts[0].scope, Scope::nic) << text;
      EXPECT_EQ(verdicts[0].faulty, (NicName{2, "nic1"})) << text;
      EXPECT_EQ(verdicts, of_nics(1)) << text;
    }
    EXPECT_TRUE(right_) << text;
  }

 private:
  static ClusterOptions options(int hosts) {
    ClusterOptions options;
    options.hosts = hosts;
    return options;
  }
  int ranks() const { return static_cast<int>(others_->size()) + 1; }
  // Begins the next AllReduce when the last one has ended.
  void work() {
    if (!others_->all_ended()) return;
    right_ = right_ && others_->right(round_);
    others_->begin_all(++round_);
  }
  std::vector<Verdict> of_nics(int rank) {
    std::vector<Verdict> found;
    for (const Verdict& each : cluster_.node(rank).fault_reporter().verdicts()) {
      if (each.scope != Scope::process) found.push_back(each);
    }
    return found;
  }
  bool all_know() {
    for (int rank = 1; rank < ranks(); ++rank) {
      if (of_nics(rank).empty()) return false;
    }
    return true;
  }

  Cluster cluster_;
  std::optional<Group> others_;
  TimeNs broken_at_ = 0;
  TimeNs killed_at_ = 0;
  TimeNs known_at_ = 0;
  size_t notices_before_ = 0;
  int round_ = 0;
  bool right_ = true;
};

struct Case {
  int hosts;
  Break breaks;
};

class TakeoverOf : public testing::TestWithParam<Case> {
 protected:
  TimeNs due_without_a_death() {
    Takeover job(GetParam().hosts);
    EXPECT_TRUE(job.run(GetParam().breaks, [](Takeover&) { return false; }));
    return job.known_after();
  }
};

TEST_P(TakeoverOf, AVerdictAtAnyMoment) {
  const TimeNs due = due_without_a_death();
  for (TimeNs later = 0; later <= due + 30 * kMillisecond; later += 20 * kMillisecond) {
    const std::string text = "death after " + std::to_string(later / kMillisecond) + " ms";
    Takeover job(GetParam().hosts);
    ASSERT_TRUE(job.run(GetParam().breaks, [&](Takeover& each) {
      return each.since_break() >= later;
    })) << text;
    job.expect_one_verdict(due, text);
  }
}

TEST_P(TakeoverOf, AVerdictAtAnyNotice) {
  const TimeNs due = due_without_a_death();
  for (size_t notice = 1;; ++notice) {
    const std::string text = "death after notice " + std::to_string(notice);
    Takeover job(GetParam().hosts);
    ASSERT_TRUE(job.run(GetParam().breaks, [&](Takeover& each) {
      return each.notices() >= notice;
    })) << text;
    if (!job.died()) break;
    job.expect_one_verdict(due, text);
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, TakeoverOf,
                         testing::Values(Case{4, black_hole}, Case{7, black_hole},
                                         Case{4, hole_for_large_packets}));

}  // namespace
}  // namespace r2ccl::sim
