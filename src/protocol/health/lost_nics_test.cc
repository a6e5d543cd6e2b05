#include "protocol/health/lost_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace r2ccl {
namespace {

constexpr TimeNs kMs = kMillisecond;
using Hosts = std::set<size_t>;

// Hosts with one NIC each, all on one rail.
class LostNicsTest : public testing::Test {
 protected:
  void start(size_t hosts) {
    reports_.assign(hosts, HostReach{NicReach{}});
    lost_.emplace(reports_);
  }
  // Each NIC reaches all others, but not over the paths to the broken NICs.
  void break_nics(const Hosts& broken) {
    const auto size = static_cast<uint32_t>(reports_.size());
    const auto missed = static_cast<uint32_t>(broken.size());
    for (size_t host = 0; host < reports_.size(); ++host) {
      const bool none = broken.contains(host);
      report(host, none ? reach_of(0, size - 1) : reach_of(size - 1 - missed, missed));
    }
  }
  void report(size_t host, std::optional<NicReach> reach) { reports_[host][0] = reach; }
  Hosts judge(TimeNs now) {
    lost_->judge(reports_, now);
    Hosts hosts;
    for (size_t host = 0; host < reports_.size(); ++host) {
      if (lost_->lost(host, 0)) hosts.insert(host);
    }
    return hosts;
  }
  // Returns the time from `from` on after which these NICs count as lost.
  TimeNs delay_until(const Hosts& wanted, TimeNs from) {
    for (TimeNs now = from; now < from + 100 * kSecond; now += kMs) {
      if (judge(now) == wanted) return now - from;
    }
    return kNever;
  }

  std::vector<HostReach> reports_;
  std::optional<LostNics> lost_;
};

TEST_F(LostNicsTest, ThatReachNobodyAreLostAtOnce) {
  for (const size_t hosts : {2, 3, 4, 64}) {
    start(hosts);
    EXPECT_EQ(judge(0), Hosts());
    break_nics({1});
    // Either of two NICs that miss each other may be the one.
    EXPECT_EQ(judge(kSecond), hosts == 2 ? Hosts({0, 1}) : Hosts({1})) << hosts;
    EXPECT_EQ(lost_->next_timeout(), kNever);
  }
}

TEST_F(LostNicsTest, AreNotThoseThatMissOnlyLostOnes) {
  start(4);
  break_nics({0, 1});
  EXPECT_EQ(judge(0), Hosts({0, 1}));
  start(64);
  Hosts broken;
  for (size_t host = 0; host < 64; ++host) {
    if (host % 20 != 3) broken.insert(host);
  }
  break_nics(broken);
  EXPECT_EQ(judge(0), broken);
  EXPECT_EQ(judge(100 * kSecond), broken);
}

TEST_F(LostNicsTest, AreThoseThatMissMoreWholeOnesThanTheyReach) {
  start(8);
  break_nics({0});
  // It misses five whole ones, and the next two NICs miss it and the broken one.
  report(1, NicReach{1, 6});
  report(2, NicReach{3, 4});
  EXPECT_EQ(delay_until({0, 1}, 0), LostNics::kDoubtfulLossAfter);
  report(2, NicReach{2, 5});
  EXPECT_EQ(delay_until({0, 1, 2}, kSecond), LostNics::kDoubtfulLossAfter);
}

TEST_F(LostNicsTest, AreNotExcusedByHostsWithoutANic) {
  for (const bool rest : {false, true}) {
    start(rest ? 6 : 4);
    for (size_t host = 4; host < reports_.size(); ++host) report(host, std::nullopt);
    report(0, NicReach{1, 2});
    Hosts wanted = {0};
    if (rest) wanted.insert({4, 5});
    EXPECT_EQ(delay_until(wanted, 0), LostNics::kDoubtfulLossAfter);
  }
}

// The reports of broken NICs, which have fewer ways, may be the last.
TEST_F(LostNicsTest, AreNotThoseWhoseReportIsTheFirst) {
  start(6);
  report(0, NicReach{1, 4});
  report(1, NicReach{1, 4});
  EXPECT_EQ(judge(0), Hosts());
  break_nics({2, 3, 4, 5});
  EXPECT_EQ(judge(100 * kMs), Hosts({2, 3, 4, 5}));
  EXPECT_EQ(lost_->next_timeout(), kNever);
}

TEST_F(LostNicsTest, ThatBreakInTurnReturnAloneAndTogether) {
  start(6);
  Hosts broken;
  for (const size_t host : {2, 3, 4, 5}) {
    broken.insert(host);
    break_nics(broken);
    EXPECT_EQ(judge(static_cast<TimeNs>(host) * kSecond), broken);
  }
  break_nics({});
  EXPECT_EQ(judge(7 * kSecond), broken);
  EXPECT_EQ(lost_->next_timeout(), 7 * kSecond + LostNics::kReturnAfter);
  EXPECT_EQ(judge(7 * kSecond + LostNics::kReturnAfter), Hosts());
}

TEST_F(LostNicsTest, ThatFlapReturnLaterAndLater) {
  start(3);
  TimeNs at = kSecond;
  TimeNs wanted = LostNics::kReturnAfter;
  const auto lose_and_return = [&] {
    break_nics({1});
    EXPECT_EQ(judge(at), Hosts({1}));
    break_nics({});
    return delay_until({}, at + 100 * kMs);
  };
  for (int flap = 0; flap < 10; ++flap) {
    EXPECT_EQ(lose_and_return(), wanted) << flap;
    wanted = std::min(2 * wanted, LostNics::kReturnAfterMax);
    at += 40 * kSecond;
  }
  // After a quiet time it is as new.
  at += 2 * LostNics::kFlapMemory;
  EXPECT_EQ(lose_and_return(), LostNics::kReturnAfter);
}

// Two of four hosts are dark, again and again.
TEST_F(LostNicsTest, OfHostsThatMissDarkOnesReturnAsSoonEachTime) {
  start(4);
  for (TimeNs at = 0; at < 20 * kSecond; at += 2 * kSecond) {
    for (const size_t host : {0, 1}) report(host, NicReach{1, 2});
    EXPECT_EQ(delay_until({0, 1}, at), LostNics::kDoubtfulLossAfter);
    for (const size_t host : {0, 1}) report(host, NicReach{});
    EXPECT_EQ(delay_until({}, at + kSecond), LostNics::kReturnAfter);
  }
}

TEST_F(LostNicsTest, AreThoseOfTheFirstReports) {
  start(3);
  report(1, NicReach{0, 1});
  report(2, std::nullopt);
  lost_.emplace(reports_);
  EXPECT_EQ(judge(0), Hosts({1, 2}));
  report(1, NicReach{});
  report(2, NicReach{});
  EXPECT_EQ(delay_until({}, 0), LostNics::kReturnAfter);
}

}  // namespace
}  // namespace r2ccl
