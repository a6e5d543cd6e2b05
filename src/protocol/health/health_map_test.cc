#include "protocol/health/health_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/clock.h"

namespace r2ccl {
namespace {

constexpr TimeNs kMs = kMillisecond;
constexpr NicRate kLost{0, 0};
constexpr NicReach kReachesNone{0, 1};

using Rails = std::vector<std::vector<uint16_t>>;

// Hosts with these numbers of NICs, on the first rails.
HealthMap map_of(const std::vector<size_t>& nics, const RateTable& known = {}) {
  Rails rails;
  for (const size_t count : nics) {
    std::vector<uint16_t>& own = rails.emplace_back(count);
    std::iota(own.begin(), own.end(), uint16_t{0});
  }
  return HealthMap(rails, known);
}

NicReport of(uint16_t rail, std::optional<NicReach> reach) {
  return {{{rail, reach}}, {}};
}

TEST(HealthMap, ReportsOfOneFaultGiveOneTable) {
  HealthMap map = map_of({2, 2, 2});
  EXPECT_EQ(map.next_timeout(), kNever);
  EXPECT_TRUE(map.on_report(Rank(0), 0, of(1, kReachesNone), kSecond).ok());
  EXPECT_TRUE(map.on_report(Rank(2), 2, of(1, kReachesNone), kSecond + 5 * kMs).ok());
  EXPECT_FALSE(map.take(kSecond + 5 * kMs).has_value());
  ASSERT_EQ(map.next_timeout(), kSecond + HealthMap::kSettle);
  const auto table = map.take(kSecond + HealthMap::kSettle);
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(*table, (RateTable{{0, 1, kLost}, {2, 1, kLost}}));
  EXPECT_EQ(map.table(), *table);
  EXPECT_FALSE(map.take(10 * kSecond).has_value());
}

TEST(HealthMap, AReportedNicStaysInTheTableWhenItIsWholeAgain) {
  HealthMap map = map_of({2, 2});
  EXPECT_TRUE(map.on_report(Rank(1), 1, of(0, std::nullopt), 0).ok());
  EXPECT_EQ(map.take(kSecond), (RateTable{{1, 0, kLost}}));
  EXPECT_TRUE(map.on_report(Rank(1), 1, of(0, NicReach{}), kSecond).ok());
  EXPECT_FALSE(map.take(kSecond + HealthMap::kSettle).has_value());
  EXPECT_EQ(map.take(map.next_timeout()), (RateTable{{1, 0, {}}}));
  EXPECT_EQ(map.next_timeout(), kNever);
}

// Each rank of a host may have a NIC of its own.
TEST(HealthMap, TakesTheReportsOfAHostsRanksTogether) {
  HealthMap map = map_of({2, 2, 2});
  EXPECT_TRUE(map.on_report(Rank(3), 1, of(0, kReachesNone), 0).ok());
  EXPECT_TRUE(map.on_report(Rank(4), 1, of(1, NicReach{}), 0).ok());
  EXPECT_EQ(map.take(kSecond), (RateTable{{1, 0, kLost}, {1, 1, {}}}));
}

// Only one rank's traffic may meet the fault. The report of a rank that has ended counts no more.
TEST(HealthMap, TakesTheWorstReportOnANicThatSeveralRanksUse) {
  HealthMap map = map_of({2, 2, 2});
  EXPECT_TRUE(map.on_report(Rank(4), 1, of(0, kReachesNone), 0).ok());
  EXPECT_TRUE(map.on_report(Rank(3), 1, of(0, NicReach{}), 0).ok());
  EXPECT_TRUE(map.on_report(Rank(5), 1, of(0, NicReach{}), 0).ok());
  EXPECT_EQ(map.take(kSecond), (RateTable{{1, 0, kLost}}));
  map.on_end(Rank(4), kSecond);
  EXPECT_FALSE(map.take(kSecond + HealthMap::kSettle).has_value());
  EXPECT_EQ(map.take(map.next_timeout()), (RateTable{{1, 0, {}}}));
}

TEST(HealthMap, GoesOnFromWhatAnotherRankHasDecided) {
  const NicRate slow{500, 250};
  const RateTable known = {{0, 0, slow}, {0, 1, kLost}, {1, 0, {}}, {1, 7, kLost}, {9, 0, kLost}};
  HealthMap map = map_of({2, 2}, known);
  EXPECT_EQ(map.table(), (RateTable{{0, 0, slow}, {0, 1, kLost}, {1, 0, {}}}));
  EXPECT_TRUE(map.on_report(Rank(1), 1, of(1, kReachesNone), 0).ok());
  EXPECT_EQ(map.take(kSecond), (RateTable{{0, 0, slow}, {0, 1, kLost}, {1, 0, {}}, {1, 1, kLost}}));
  EXPECT_TRUE(map.on_report(Rank(0), 0, of(0, NicReach{}), kSecond).ok());
  EXPECT_EQ(map.take(2 * kSecond),
            (RateTable{{0, 0, {}}, {0, 1, kLost}, {1, 0, {}}, {1, 1, kLost}}));
}

TEST(HealthMap, RefusesReportsOfNicsThatAreNotThere) {
  HealthMap map = map_of({2, 1});
  EXPECT_FALSE(map.on_report(Rank(1), 1, of(1, NicReach{}), 0).ok());
  EXPECT_FALSE(map.on_report(Rank(0), 0, of(2, NicReach{}), 0).ok());
  EXPECT_FALSE(map.on_report(Rank(0), 0, {{{0, NicReach{}}}, {{0, 500, 1, 1}}}, 0).ok());
  EXPECT_FALSE(map.on_report(Rank(0), 0, {{{0, NicReach{}}}, {{0, 500, 2, 0}}}, 0).ok());
  EXPECT_EQ(map.next_timeout(), kNever);
}

// Each host of a ring of four sends slowly by its NIC 1 to the next one, if its entry says so.
RateTable table_of_ring(const std::vector<uint32_t>& rates) {
  HealthMap map = map_of(std::vector<size_t>(4, 2));
  for (uint32_t host = 0; host < 4; ++host) {
    NicReport report = of(1, NicReach{});
    if (rates[host] < kWholeNic) report.slow.push_back({1, rates[host], (host + 1) % 4, 1});
    EXPECT_TRUE(map.on_report(Rank(static_cast<int32_t>(host)), host, report, 0).ok());
  }
  RateTable table = map.take(kSecond).value_or(RateTable());
  std::erase_if(table, [](const RailRate& nic) { return nic.rate == NicRate{}; });
  return table;
}

TEST(HealthMap, OfANicThatSendsAndReceivesSlowlyItIsTheOneAtFault) {
  EXPECT_EQ(table_of_ring({1000, 500, 750, 1000}), (RateTable{{2, 1, {750, 500}}}));
}

TEST(HealthMap, OfASlowPairEitherMayBeAtFaultSoNoneIs) {
  EXPECT_EQ(table_of_ring({1000, 500, 1000, 1000}), RateTable());
}

TEST(HealthMap, ANicThatIsSlowTowardsSeveralHostsIsAtFault) {
  HealthMap map = map_of({2, 2});
  EXPECT_TRUE(map.on_report(Rank(1), 1, {{{0, NicReach{}}}, {{0, 250, kSeveralHosts, 0}}}, 0).ok());
  EXPECT_EQ(map.take(kSecond), (RateTable{{1, 0, {250, 1000}}}));
}

// A job in which all hosts have reported their eight NICs.
class LargeJob {
 public:
  static constexpr uint16_t kNics = 8;

  // `slow`: each NIC sends slowly to the next host, so each of them may be at fault.
  LargeJob(uint32_t hosts, bool slow)
      : hosts_(hosts), map_(map_of(std::vector<size_t>(hosts, kNics))) {
    for (uint32_t host = 0; host < hosts; ++host) {
      NicReport report;
      for (uint16_t rail = 0; rail < kNics; ++rail) {
        report.nics.push_back({rail, NicReach{}});
        if (slow) report.slow.push_back({rail, 500, (host + 1) % hosts, rail});
      }
      tell(host, report);
    }
    map_.take(now_ += kSecond);
  }
  // Returns the time of the fastest judgement of some that each find one lost NIC more.
  TimeNs judge() {
    constexpr int kTimes = 20;
    TimeNs fastest = kNever;
    for (uint32_t host = 0; host < kTimes; ++host) {
      NicReport report;
      for (uint16_t rail = 0; rail < kNics; ++rail) report.nics.push_back({rail, NicReach{}});
      report.nics[3].reach = NicReach{0, hosts_ - 1};
      tell(host, report);
      now_ += HealthMap::kSettle;
      const TimeNs began = SystemClock().now();
      const auto table = map_.take(now_);
      fastest = std::min(fastest, SystemClock().now() - began);
      EXPECT_TRUE(table.has_value());
      const auto is_lost = [](const RailRate& nic) { return nic.rate == kLost; };
      EXPECT_EQ(std::ranges::count_if(map_.table(), is_lost), host + 1);
    }
    return fastest;
  }

 private:
  void tell(uint32_t host, const NicReport& report) {
    EXPECT_TRUE(map_.on_report(Rank(static_cast<int32_t>(host)), host, report, now_).ok());
  }

  const uint32_t hosts_;
  HealthMap map_;
  TimeNs now_ = 0;
};

// Eight times the hosts take about eight times as long. The square would be 64 times.
TEST(HealthMap, TakesATimeThatGrowsWithTheNumberOfNics) {
  for (const bool slow : {false, true}) {
    const TimeNs few = LargeJob(128, slow).judge();
    const TimeNs many = LargeJob(1024, slow).judge();
    std::printf("a judgement of 1,024 hosts with 8%s NICs each takes %.2f ms\n",
                slow ? " slow" : "", to_ms(many));
    EXPECT_LT(many, 30 * few);
  }
}

}  // namespace
}  // namespace r2ccl
