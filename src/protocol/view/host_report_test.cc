#include "protocol/view/host_report.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

TEST(NicReach, OfANicThatMissesNoMoreThanItReachesIsWhole) {
  EXPECT_TRUE(reach_of(0, 0).whole());
  EXPECT_TRUE(reach_of(2, 2).whole());
  EXPECT_EQ(reach_of(2, 3), (NicReach{2, 3}));
  EXPECT_EQ(reach_of(0, 1), (NicReach{0, 1}));
  EXPECT_EQ(reach_of(1, 100'000), (NicReach{1, 100'000}));
}

TEST(HostReport, ComesBackEqual) {
  const HostReport report{{NicReach{}, std::nullopt, NicReach{1, 70'000}}, {{0, 750, 3, 1}}};
  const auto bytes = encode(report);
  const auto decoded = decode_host_report(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), report);
}

TEST(HostReport, IsRefusedWhenTruncatedOrTooLong) {
  auto bytes = encode(HostReport{{NicReach{}, NicReach{1, 2}}, {{0, 750, 3, 1}}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_host_report(std::span(bytes).first(size)).ok());
  }
  bytes.push_back({});
  EXPECT_FALSE(decode_host_report(bytes).ok());
}

TEST(HostReport, IsRefusedWhenAbsurd) {
  const HostReach one(1, NicReach{});
  EXPECT_FALSE(decode_host_report(encode(HostReport{HostReach(65, NicReach{}), {}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{{NicReach{2, 1}}, {}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{{NicReach{2, 0}}, {}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{one, {{1, 500, 0, 0}}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{one, {{0, 0, 0, 0}}})).ok());
  EXPECT_FALSE(decode_host_report(encode(HostReport{one, {{0, 1000, 0, 0}}})).ok());
}

}  // namespace
}  // namespace r2ccl
