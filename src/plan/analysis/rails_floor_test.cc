#include "plan/analysis/rails_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace r2ccl {
namespace {

TEST(RailsFloor, OfEqualHostsIsThatOfTheirTotals) {
  for (const size_t hosts : {2, 3, 8, 32}) {
    const auto p = static_cast<double>(hosts);
    EXPECT_NEAR(rails_floor(std::vector<HostRates>(hosts, HostRates(8))) * 8000 * p / (2 * (p - 1)),
                1, 1e-3)
        << hosts << " hosts";
  }
}

// 14 hosts have one rail, on which their inputs leave and their results arrive: 2 * 14 messages, or
// two less where one of them is the root. All 16 hosts send on this rail. The second rail of two
// hosts, which is fast, does not help them.
TEST(RailsFloor, KnowsThatARailIsTooNarrow) {
  std::vector<HostRates> hosts(14, HostRates(1));
  for (int fast = 0; fast < 2; ++fast) hosts.push_back({NicRate{}, NicRate{10'000, 10'000}});
  EXPECT_NEAR(rails_floor(hosts) * 16'000, 26, 0.26);
}

// No ring takes longer than twice the vector's time at its slowest NIC.
TEST(RailsFloor, IsBelowTheTimeOfAPlanForRatesThatAreFarApart) {
  const auto rate = [](uint32_t number) {
    constexpr uint32_t kRates[] = {1, 7, 1000, 1'000'000};
    return kRates[number % 4];
  };
  for (uint32_t first = 0; first < 16; ++first) {
    for (const uint32_t count : {2, 3, 9}) {
      std::vector<HostRates> hosts;
      for (uint32_t host = 0; host < count; ++host) {
        hosts.push_back({NicRate{rate(first + host), rate(first / 4 + 3 * host)}});
      }
      uint32_t least = kNicRateMax;
      for (const HostRates& host : hosts) {
        least = std::min({least, host[0].send, host[0].receive});
      }
      const double floor = rails_floor(hosts);
      EXPECT_GT(floor, 0);
      EXPECT_LE(floor * least, 2) << first << ", " << count << " hosts";
    }
  }
}

}  // namespace
}  // namespace r2ccl
