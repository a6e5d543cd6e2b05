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

// A host with two NICs whose second one fails and returns.
class Filter : public testing::Test {
 protected:
  // Returns the time from `from` on after which the reported rates are `wanted`.
  TimeNs delay_until(const HostRates& wanted, TimeNs from) {
    for (TimeNs now = from; now < from + 100 * kSecond; now += kMs) {
      if (filter_.rates(now) == wanted) return now - from;
    }
    return kNever;
  }
  // Returns how long the return takes that follows a loss at `at`.
  TimeNs lose_and_return(TimeNs at) {
    filter_.observe(without(2, 1), at);
    EXPECT_EQ(delay_until(without(2, 1), at), HostRatesFilter::kLossAfter);
    filter_.observe(whole(2), at + 100 * kMs);
    return delay_until(whole(2), at + 100 * kMs);
  }

  HostRatesFilter filter_{whole(2), 0};
};

TEST_F(Filter, ALossCountsSoonAndAReturnAfterAWhile) {
  filter_.observe(whole(2), 0);
  EXPECT_EQ(filter_.next_timeout(), kNever);
  EXPECT_EQ(lose_and_return(kSecond), HostRatesFilter::kReturnAfter);
}

TEST_F(Filter, AShortLossDoesNotCount) {
  filter_.observe(whole(2), 0);
  filter_.observe(without(2, 1), kSecond);
  filter_.observe(whole(2), kSecond + 10 * kMs);
  EXPECT_EQ(filter_.next_timeout(), kNever);
  EXPECT_EQ(filter_.rates(10 * kSecond), whole(2));
}

TEST_F(Filter, ANicThatFlapsReturnsLaterAndLater) {
  filter_.observe(whole(2), 0);
  TimeNs at = kSecond;
  TimeNs wanted = HostRatesFilter::kReturnAfter;
  for (int flap = 0; flap < 10; ++flap) {
    EXPECT_EQ(lose_and_return(at), wanted) << flap;
    wanted = std::min(2 * wanted, HostRatesFilter::kReturnAfterMax);
    at += 40 * kSecond;
  }
  // After a quiet time it is as new.
  EXPECT_EQ(lose_and_return(at + 2 * HostRatesFilter::kFlapMemory), HostRatesFilter::kReturnAfter);
}

TEST_F(Filter, NicsHaveTimeToConnectAtTheStart) {
  filter_.observe(without(2, 1), 0);
  EXPECT_EQ(filter_.next_timeout(), HostRatesFilter::kFirstLossAfter);
  EXPECT_EQ(delay_until(without(2, 1), 0), HostRatesFilter::kFirstLossAfter);
}

TEST_F(Filter, ARateThatFallsCountsAsALoss) {
  filter_.observe(whole(2), 0);
  HostRates slow = whole(2);
  slow[0] = {500, 1000};
  filter_.observe(slow, kSecond);
  EXPECT_EQ(delay_until(slow, kSecond), HostRatesFilter::kLossAfter);
}

TEST(ViewDriver, ReportsOfOneFaultGiveOneView) {
  ViewDriver driver({whole(2), whole(2), whole(2)});
  EXPECT_EQ(driver.next_timeout(), kNever);
  EXPECT_TRUE(driver.on_report(0, {without(2, 1), {}}, kSecond).ok());
  EXPECT_TRUE(driver.on_report(2, {without(2, 1), {}}, kSecond + 5 * kMs).ok());
  EXPECT_FALSE(driver.take(kSecond + 5 * kMs).has_value());
  ASSERT_EQ(driver.next_timeout(), kSecond + ViewDriver::kSettle);
  const auto view = driver.take(kSecond + ViewDriver::kSettle);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->hosts(), (std::vector{without(2, 1), whole(2), without(2, 1)}));
  EXPECT_FALSE(driver.take(10 * kSecond).has_value());
}

TEST(ViewDriver, ARepairGivesTheHealthyView) {
  ViewDriver driver({whole(2), without(2, 0)});
  EXPECT_TRUE(driver.on_report(1, {whole(2), {}}, 0).ok());
  const auto view = driver.take(kSecond);
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->empty());
}

TEST(ViewDriver, AHostWithoutAnyNicKeepsTheOldView) {
  ViewDriver driver({whole(1), whole(1)});
  EXPECT_TRUE(driver.on_report(1, {{kLost}, {}}, 0).ok());
  EXPECT_FALSE(driver.take(kSecond).has_value());
  EXPECT_EQ(driver.next_timeout(), kNever);
}

TEST(ViewDriver, RefusesReportsOfOtherNics) {
  ViewDriver driver({whole(2), whole(1)});
  EXPECT_FALSE(driver.on_report(2, {whole(2), {}}, 0).ok());
  EXPECT_FALSE(driver.on_report(1, {whole(2), {}}, 0).ok());
  EXPECT_EQ(driver.next_timeout(), kNever);
}

// Each host of a ring of four sends slowly by its NIC 1 to the next one, if its entry says so.
std::optional<View> view_of_ring(const std::vector<uint32_t>& rates) {
  ViewDriver driver(std::vector<HostRates>(4, whole(2)));
  for (uint32_t host = 0; host < 4; ++host) {
    HostReport report{whole(2), {}};
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
  EXPECT_TRUE(driver.on_report(1, {whole(2), {{0, 250, kSeveralHosts, 0}}}, 0).ok());
  const auto view = driver.take(kSecond);
  ASSERT_TRUE(view.has_value() && !view->empty());
  EXPECT_EQ(view->hosts()[1], (HostRates{{250, 1000}, {}}));
}

TEST(HostReport, ComesBackEqualAndIsRefusedWhenAbsurd) {
  const HostReport report{{{1000, 500}, kLost}, {{0, 750, 3, 1}}};
  const auto bytes = encode(report);
  const auto decoded = decode_host_report(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), report);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_host_report(std::span(bytes).first(size)).ok());
  }
  EXPECT_FALSE(decode_host_report(encode(HostReport{HostRates(65), {}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{{{kNicRateMax + 1, 0}}, {}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{whole(1), {{1, 500, 0, 0}}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{whole(1), {{0, 0, 0, 0}}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{whole(1), {{0, 1000, 0, 0}}})).ok());
}

}  // namespace
}  // namespace r2ccl
