#include "tools/plan/plan_transfers.h"

#include <gtest/gtest.h>

#include "tools/plan/plan_view.h"

namespace r2ccl::tools {
namespace {

ShownPlan shown_ring(int32_t ranks, uint64_t count) {
  PlanKey key;
  key.algorithm = Algorithm::ring;
  key.rank_count = ranks;
  key.count = count;
  return prove_and_time(make_whole_plan(key), "", std::nullopt);
}

size_t occurrences(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(PlanTransfers, HaveBothEndsOfEachMessage) {
  const ShownPlan shown = shown_ring(2, 5);
  ASSERT_EQ(shown.transfers.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const Transfer& each = shown.transfers[i];
    EXPECT_EQ(each.from, 1 - each.to);
    EXPECT_EQ(each.source.count, each.target.count);
    EXPECT_EQ(each.reduces, i < 2);
    EXPECT_GT(each.received.end_ns, each.sent.moved_ns);
    EXPECT_LE(each.received.end_ns, shown.times.end_ns);
    // A rank passes on the sum that it received.
    const Transfer& first = shown.transfers[shown.transfers[0].to == each.from ? 0 : 1];
    EXPECT_EQ(each.sent.start_ns, i < 2 ? 0 : first.received.end_ns);
  }
}

TEST(PlanTransfers, ThePictureHasABarForEachEnd) {
  const ShownPlan shown = shown_ring(4, 1 << 20);
  const std::string picture = plan_svg(shown);
  const size_t sums = 4 * 3 * 4;  // each of four blocks takes three hops, in four segments
  EXPECT_EQ(occurrences(picture, "fill=\"#c8551b\""), sums + 1) << "and one in the legend";
  EXPECT_EQ(occurrences(picture, "fill=\"#7aa6d0\""), sums + 1);
  EXPECT_EQ(occurrences(picture, ">rank "), 4u);
  EXPECT_NE(picture.find(">96 transfers<"), std::string::npos);
}

TEST(PlanTransfers, APictureOfManyTransfersSaysWhichItHas) {
  const std::string picture = plan_svg(shown_ring(32, 1 << 20));
  EXPECT_NE(picture.find(">the first 1000 of "), std::string::npos);
  EXPECT_EQ(occurrences(picture, "stroke-width=\"0.80\""), 1000u) << "lines";
}

TEST(PlanTransfers, APlanWithoutMessagesHasAPicture) {
  EXPECT_NE(plan_svg(shown_ring(1, 5)).find(">0 transfers<"), std::string::npos);
}

}  // namespace
}  // namespace r2ccl::tools
