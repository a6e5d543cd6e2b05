#include "protocol/view/view_driver.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr NicRate kLost{0, 0};
constexpr TimeNs kMs = kMillisecond;

HostRates whole(size_t nics) {
  return HostRates(nics);
}

HostRates without(size_t nics, size_t lost) {
  HostRates rates(nics);
  rates[lost] = kLost;
  return rates;
}

HostReport all_whole(size_t nics) {
  return {HostReach(nics, NicReach{}), {}};
}

HostReport all_whole_but(size_t nics, size_t lost) {
  HostReport report = all_whole(nics);
  report.reach[lost] = NicReach{0, 1};
  return report;
}

// Returns a driver that begins with these rates.
ViewDriver driver_of(const std::vector<HostRates>& hosts) {
  std::vector<HostReport> reports;
  for (const HostRates& rates : hosts) {
    reports.push_back(all_whole(rates.size()));
    for (size_t nic = 0; nic < rates.size(); ++nic) {
      if (rates[nic] == kLost) reports.back().reach[nic] = NicReach{0, 1};
    }
  }
  return {hosts, reports, 0};
}

TEST(ViewDriver, ReportsOfOneFaultGiveOneView) {
  ViewDriver driver = driver_of({whole(2), whole(2), whole(2)});
  EXPECT_EQ(driver.next_timeout(), kNever);
  EXPECT_TRUE(driver.on_report(0, all_whole_but(2, 1), kSecond).ok());
  EXPECT_TRUE(driver.on_report(2, all_whole_but(2, 1), kSecond + 5 * kMs).ok());
  EXPECT_FALSE(driver.take(kSecond + 5 * kMs).has_value());
  ASSERT_EQ(driver.next_timeout(), kSecond + ViewDriver::kSettle);
  const auto view = driver.take(kSecond + ViewDriver::kSettle);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->hosts(), (std::vector{without(2, 1), whole(2), without(2, 1)}));
  EXPECT_FALSE(driver.take(10 * kSecond).has_value());
}

TEST(ViewDriver, ARepairGivesTheHealthyView) {
  ViewDriver driver = driver_of({whole(2), without(2, 0)});
  EXPECT_TRUE(driver.on_report(1, all_whole(2), 0).ok());
  EXPECT_EQ(driver.take(kSecond)->hosts(), (std::vector{whole(2), without(2, 0)}));
  EXPECT_EQ(driver.next_timeout(), kSecond + LostNics::kReturnAfter);
  const auto view = driver.take(kSecond + LostNics::kReturnAfter);
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->empty());
  EXPECT_EQ(driver.next_timeout(), kNever);
}

TEST(ViewDriver, AHostWithoutAnyNicKeepsTheOldView) {
  ViewDriver driver = driver_of({whole(1), whole(1)});
  EXPECT_TRUE(driver.on_report(1, all_whole_but(1, 0), 0).ok());
  EXPECT_FALSE(driver.take(kSecond).has_value());
  EXPECT_EQ(driver.next_timeout(), kNever);
}

TEST(ViewDriver, RefusesReportsOfOtherNics) {
  ViewDriver driver = driver_of({whole(2), whole(1)});
  EXPECT_FALSE(driver.on_report(2, all_whole(2), 0).ok());
  EXPECT_FALSE(driver.on_report(1, all_whole(2), 0).ok());
  EXPECT_EQ(driver.next_timeout(), kNever);
}

// Each host of a ring of four sends slowly by its NIC 1 to the next one, if its entry says so.
std::optional<View> view_of_ring(const std::vector<uint32_t>& rates) {
  ViewDriver driver = driver_of(std::vector<HostRates>(4, whole(2)));
  for (uint32_t host = 0; host < 4; ++host) {
    HostReport report = all_whole(2);
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
  ViewDriver driver = driver_of({whole(2), whole(2)});
  HostReport report = all_whole(2);
  report.slow = {{0, 250, kSeveralHosts, 0}};
  EXPECT_TRUE(driver.on_report(1, report, 0).ok());
  const auto view = driver.take(kSecond);
  ASSERT_TRUE(view.has_value() && !view->empty());
  EXPECT_EQ(view->hosts()[1], (HostRates{{250, 1000}, {}}));
}

TEST(ViewDriver, ASlowNicOfTheFirstViewIsSlowForSomeTimeThoughNoReportNamesIt) {
  const std::vector<HostRates> first = {whole(2), {{500, 1000}, {1000, 250}}};
  ViewDriver driver = driver_of(first);
  EXPECT_EQ(driver.next_timeout(), ViewDriver::kFirstRates);
  EXPECT_TRUE(driver.on_report(0, all_whole_but(2, 1), kSecond).ok());
  EXPECT_EQ(driver.take(2 * kSecond)->hosts(), (std::vector{without(2, 1), first[1]}));
  EXPECT_EQ(driver.next_timeout(), ViewDriver::kFirstRates);
  EXPECT_EQ(driver.take(ViewDriver::kFirstRates)->hosts(), (std::vector{without(2, 1), whole(2)}));
  EXPECT_EQ(driver.next_timeout(), kNever);
}

}  // namespace
}  // namespace r2ccl
