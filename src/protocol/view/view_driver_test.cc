#include "protocol/view/view_driver.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr NicRate kLost{0, 0};
using Reach = std::vector<NicReach>;
constexpr TimeNs kMs = kMillisecond;

HostRates whole(size_t nics) {
  return HostRates(nics);
}

HostRates without(size_t nics, size_t lost) {
  HostRates rates(nics);
  rates[lost] = kLost;
  return rates;
}

Reach reach_all(size_t nics) {
  return Reach(nics, kWholeReach);
}

Reach reach_without(size_t nics, size_t lost) {
  Reach reach(nics, kWholeReach);
  reach[lost] = 0;
  return reach;
}

// A host with two NICs whose second one fails and returns.
class Filter : public testing::Test {
 protected:
  // Returns the time from `from` on after which the reported rates are `wanted`.
  TimeNs delay_until(const Reach& wanted, TimeNs from) {
    for (TimeNs now = from; now < from + 100 * kSecond; now += kMs) {
      if (filter_.reach(now) == wanted) return now - from;
    }
    return kNever;
  }
  // Returns how long the return takes that follows a loss at `at`.
  TimeNs lose_and_return(TimeNs at) {
    filter_.observe(reach_without(2, 1), at);
    EXPECT_EQ(delay_until(reach_without(2, 1), at), ReachFilter::kLossAfter);
    filter_.observe(reach_all(2), at + 100 * kMs);
    return delay_until(reach_all(2), at + 100 * kMs);
  }

  ReachFilter filter_{reach_all(2), 0};
};

TEST_F(Filter, ALossCountsSoonAndAReturnAfterAWhile) {
  filter_.observe(reach_all(2), 0);
  EXPECT_EQ(filter_.next_timeout(), kNever);
  EXPECT_EQ(lose_and_return(kSecond), ReachFilter::kReturnAfter);
}

TEST_F(Filter, AShortLossDoesNotCount) {
  filter_.observe(reach_all(2), 0);
  filter_.observe(reach_without(2, 1), kSecond);
  filter_.observe(reach_all(2), kSecond + 10 * kMs);
  EXPECT_EQ(filter_.next_timeout(), kNever);
  EXPECT_EQ(filter_.reach(10 * kSecond), reach_all(2));
}

TEST_F(Filter, ANicThatFlapsReturnsLaterAndLater) {
  filter_.observe(reach_all(2), 0);
  TimeNs at = kSecond;
  TimeNs wanted = ReachFilter::kReturnAfter;
  for (int flap = 0; flap < 10; ++flap) {
    EXPECT_EQ(lose_and_return(at), wanted) << flap;
    wanted = std::min(2 * wanted, ReachFilter::kReturnAfterMax);
    at += 40 * kSecond;
  }
  // After a quiet time it is as new.
  EXPECT_EQ(lose_and_return(at + 2 * ReachFilter::kFlapMemory), ReachFilter::kReturnAfter);
}

TEST_F(Filter, NicsHaveTimeToConnectAtTheStart) {
  filter_.observe(reach_without(2, 1), 0);
  EXPECT_EQ(filter_.next_timeout(), ReachFilter::kFirstLossAfter);
  EXPECT_EQ(delay_until(reach_without(2, 1), 0), ReachFilter::kFirstLossAfter);
}

TEST_F(Filter, PathsThatFailOneAfterTheOtherDoNotDelayALoss) {
  filter_.observe(reach_all(2), 0);
  filter_.observe(Reach{kWholeReach, 400}, kSecond);
  filter_.observe(Reach{kWholeReach, 200}, kSecond + 15 * kMs);
  EXPECT_EQ(delay_until({kWholeReach, 200}, kSecond + 15 * kMs),
            ReachFilter::kLossAfter - 15 * kMs);
  filter_.observe(reach_without(2, 1), 2 * kSecond);
  EXPECT_EQ(delay_until(reach_without(2, 1), 2 * kSecond), ReachFilter::kLossAfter);
}

TEST(ViewDriver, ReportsOfOneFaultGiveOneView) {
  ViewDriver driver({whole(2), whole(2), whole(2)});
  EXPECT_EQ(driver.next_timeout(), kNever);
  EXPECT_TRUE(driver.on_report(0, {reach_without(2, 1), {}}, kSecond).ok());
  EXPECT_TRUE(driver.on_report(2, {reach_without(2, 1), {}}, kSecond + 5 * kMs).ok());
  EXPECT_FALSE(driver.take(kSecond + 5 * kMs).has_value());
  ASSERT_EQ(driver.next_timeout(), kSecond + ViewDriver::kSettle);
  const auto view = driver.take(kSecond + ViewDriver::kSettle);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->hosts(), (std::vector{without(2, 1), whole(2), without(2, 1)}));
  EXPECT_FALSE(driver.take(10 * kSecond).has_value());
}

// Returns the view of hosts with two NICs, of which the second ones have this reach.
std::vector<HostRates> view_of_reach(const Reach& reach) {
  ViewDriver driver(std::vector<HostRates>(reach.size(), whole(2)));
  for (size_t host = 0; host < reach.size(); ++host) {
    EXPECT_TRUE(driver.on_report(host, {{kWholeReach, reach[host]}, {}}, 0).ok());
  }
  const View view = driver.take(kSecond).value();
  return view.empty() ? std::vector<HostRates>(reach.size(), whole(2)) : view.hosts();
}

// Returns the reach of a NIC towards so many of the others.
NicReach reaching(size_t hosts, size_t others) {
  return reach_of(hosts, others - hosts);
}

TEST(ViewDriver, ANicIsWholeThatMissesLostOnesAlone) {
  const HostRates lost = without(2, 1);
  EXPECT_EQ(view_of_reach({0, 0, reaching(1, 3), reaching(1, 3)}),
            (std::vector{lost, lost, whole(2), whole(2)}));
  std::vector<HostRates> wanted(64, lost);
  Reach reach(64, 0);
  for (const size_t host : {5, 9, 63}) {
    wanted[host] = whole(2);
    reach[host] = reaching(2, 63);
  }
  EXPECT_EQ(view_of_reach(reach), wanted);
}

TEST(ViewDriver, ANicThatMissesMostWholeOnesIsLost) {
  const HostRates lost = without(2, 1);
  EXPECT_EQ(view_of_reach({reaching(1, 3), kWholeReach, kWholeReach, kWholeReach}),
            (std::vector{lost, whole(2), whole(2), whole(2)}));
  EXPECT_EQ(view_of_reach({0, reaching(1, 7), reaching(3, 7), reaching(3, 7), kWholeReach,
                           kWholeReach, kWholeReach, kWholeReach}),
            (std::vector{lost, lost, whole(2), whole(2), whole(2), whole(2), whole(2), whole(2)}));
}

TEST(ViewDriver, ARepairGivesTheHealthyView) {
  ViewDriver driver({whole(2), without(2, 0)});
  EXPECT_TRUE(driver.on_report(1, {reach_all(2), {}}, 0).ok());
  const auto view = driver.take(kSecond);
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->empty());
}

TEST(ViewDriver, AHostWithoutAnyNicKeepsTheOldView) {
  ViewDriver driver({whole(1), whole(1)});
  EXPECT_TRUE(driver.on_report(1, {{0}, {}}, 0).ok());
  EXPECT_FALSE(driver.take(kSecond).has_value());
  EXPECT_EQ(driver.next_timeout(), kNever);
}

TEST(ViewDriver, RefusesReportsOfOtherNics) {
  ViewDriver driver({whole(2), whole(1)});
  EXPECT_FALSE(driver.on_report(2, {reach_all(2), {}}, 0).ok());
  EXPECT_FALSE(driver.on_report(1, {reach_all(2), {}}, 0).ok());
  EXPECT_EQ(driver.next_timeout(), kNever);
}

// Each host of a ring of four sends slowly by its NIC 1 to the next one, if its entry says so.
std::optional<View> view_of_ring(const std::vector<uint32_t>& rates) {
  ViewDriver driver(std::vector<HostRates>(4, whole(2)));
  for (uint32_t host = 0; host < 4; ++host) {
    HostReport report{reach_all(2), {}};
    if (rates[host] < kWholeNic) report.slow.push_back({1, rates[host], (host + 1) % 4, 1});
    EXPECT_TRUE(driver.on_report(host, report, 0).ok());
  }
  return driver.take(kSecond);
}

TEST(ViewDriver, OfANicThatSendsAndReceivesSlowlyItIsTheOneAtFault) {
  const auto view = view_of_ring({1000, 500, 750, 1000});
  ASSERT_TRUE(view.has_value() && !view->empty());
  EXPECT_EQ(view->hosts()[2], (HostRates{{}, {750, 500}}));
  for (const size_t host : {0, 1, 3}) EXPECT_EQ(view->hosts()[host], whole(2));
}

TEST(ViewDriver, OfASlowPairEitherMayBeAtFaultSoNoneIs) {
  const auto view = view_of_ring({1000, 500, 1000, 1000});
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->empty());
}

TEST(ViewDriver, ANicThatIsSlowTowardsSeveralHostsIsAtFault) {
  ViewDriver driver({whole(2), whole(2)});
  EXPECT_TRUE(driver.on_report(1, {reach_all(2), {{0, 250, kSeveralHosts, 0}}}, 0).ok());
  const auto view = driver.take(kSecond);
  ASSERT_TRUE(view.has_value() && !view->empty());
  EXPECT_EQ(view->hosts()[1], (HostRates{{250, 1000}, {}}));
}

TEST(HostReport, ComesBackEqualAndIsRefusedWhenAbsurd) {
  const HostReport report{{kWholeReach, 0, 333}, {{0, 750, 3, 1}}};
  const auto bytes = encode(report);
  const auto decoded = decode_host_report(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), report);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_host_report(std::span(bytes).first(size)).ok());
  }
  EXPECT_FALSE(decode_host_report(encode(HostReport{Reach(65), {}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{{kWholeReach + 1}, {}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{reach_all(1), {{1, 500, 0, 0}}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{reach_all(1), {{0, 0, 0, 0}}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{reach_all(1), {{0, 1000, 0, 0}}})).ok());
}

}  // namespace
}  // namespace r2ccl
