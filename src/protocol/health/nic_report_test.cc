#include "protocol/health/nic_report.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace r2ccl {
namespace {

TEST(NicReach, OfANicThatMissesNoMoreThanItReachesIsWhole) {
  EXPECT_TRUE(reach_of(0, 0).whole());
  EXPECT_TRUE(reach_of(2, 2).whole());
  EXPECT_EQ(reach_of(2, 3), (NicReach{2, 3}));
  EXPECT_EQ(reach_of(0, 1), (NicReach{0, 1}));
  EXPECT_EQ(reach_of(1, 100'000), (NicReach{1, 100'000}));
}

TEST(NicReport, ComesBackEqual) {
  const NicReport report{{{0, NicReach{}}, {2, std::nullopt}, {63, NicReach{1, 70'000}}},
                         {{63, 750, 3, 1}}};
  const auto decoded = decode_nic_report(encode(report));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), report);
}

TEST(NicReport, IsRefusedWhenTruncatedOrTooLong) {
  auto bytes = encode(NicReport{{{0, NicReach{}}, {1, NicReach{1, 2}}}, {{0, 750, 3, 1}}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_nic_report(std::span(bytes).first(size)).ok());
  }
  bytes.push_back({});
  EXPECT_FALSE(decode_nic_report(bytes).ok());
}

TEST(NicReport, IsRefusedWhenAbsurd) {
  const auto refused = [](const NicReport& report) {
    return !decode_nic_report(encode(report)).ok();
  };
  const std::vector<NicState> one = {{0, NicReach{}}};
  EXPECT_FALSE(refused({one, {}}));
  EXPECT_TRUE(refused({{{64, NicReach{}}}, {}}));
  EXPECT_TRUE(refused({{{1, NicReach{}}, {1, NicReach{}}}, {}})) << "twice";
  EXPECT_TRUE(refused({{{1, NicReach{}}, {0, NicReach{}}}, {}})) << "out of order";
  EXPECT_TRUE(refused({{{0, NicReach{2, 1}}}, {}}));
  EXPECT_TRUE(refused({{{0, NicReach{2, 0}}}, {}}));
  EXPECT_TRUE(refused({one, {{1, 500, 0, 0}}})) << "not of its NICs";
  EXPECT_TRUE(refused({one, {{0, 500, 0, 0}, {0, 500, 0, 0}}})) << "twice";
  EXPECT_TRUE(refused({one, {{0, 0, 0, 0}}}));
  EXPECT_TRUE(refused({one, {{0, 1000, 0, 0}}}));
}

TEST(RateTable, ComesBackEqual) {
  const RateTable table = {{0, 1, {0, 0}}, {0, 3, {}}, {70'000, 0, {500, 1000}}};
  const auto decoded = decode_rate_table(encode(table));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), table);
  EXPECT_EQ(decode_rate_table({}).value(), RateTable());
}

TEST(RateTable, FitsIntoANoticeAtItsLargest) {
  RateTable table;
  for (uint32_t host = 0; host < kTableRatesMax; ++host) table.push_back({host, 0, {}});
  constexpr size_t kNoticeHeader = 32;
  EXPECT_LE(encode(table).size() + kNoticeHeader, limits::kNoticeBytesMax);
  EXPECT_EQ(decode_rate_table(encode(table)).value(), table);
}

TEST(RateTable, IsRefusedWhenTruncatedOrAbsurd) {
  const auto bytes = encode(RateTable{{3, 1, {0, 0}}});
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_rate_table(std::span(bytes).first(size)).ok());
  }
  EXPECT_FALSE(decode_rate_table(encode(RateTable{{3, 1, {1001, 1000}}})).ok());
  EXPECT_FALSE(decode_rate_table(encode(RateTable{{3, 1, {0, 0}}, {3, 1, {0, 0}}})).ok());
  EXPECT_FALSE(decode_rate_table(encode(RateTable{{3, 1, {0, 0}}, {2, 5, {0, 0}}})).ok());
}

}  // namespace
}  // namespace r2ccl
