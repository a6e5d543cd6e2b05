#include "protocol/notice_ledger.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

std::vector<std::byte> text(size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{7});
}

TEST(NoticeLedger, SaysANoticeUntilItWasApplied) {
  NoticeLedger ledger;
  EXPECT_TRUE(ledger.add(text(1)));
  EXPECT_TRUE(ledger.add(text(2)));
  EXPECT_EQ(ledger.report().size(), 2u);
  EXPECT_EQ(ledger.report(), ledger.report());
  ledger.on_applied(1);
  ASSERT_EQ(ledger.report().size(), 1u);
  EXPECT_EQ(ledger.report().front(), (NoticeReport{1, text(2)}));
  ledger.on_applied(0);  // said earlier, arrives late
  EXPECT_EQ(ledger.pending(), 1u);
  ledger.on_applied(2);
  EXPECT_EQ(ledger.pending(), 0u);
}

TEST(NoticeLedger, TakesEachNoticeOnceAndInOrder) {
  NoticeLedger ledger;
  EXPECT_FALSE(ledger.take(1));
  EXPECT_TRUE(ledger.take(0));
  EXPECT_FALSE(ledger.take(0));
  EXPECT_TRUE(ledger.take(1));
  EXPECT_EQ(ledger.applied(), 2u);
}

TEST(NoticeLedger, SaysNoMoreThanOneFrameHolds) {
  NoticeLedger many;
  for (size_t i = 0; i < NoticeLedger::kPerFrame + 1; ++i) EXPECT_TRUE(many.add(text(1)));
  EXPECT_EQ(many.report().size(), NoticeLedger::kPerFrame);
  NoticeLedger large;
  constexpr size_t kFitting = NoticeLedger::kBytesPerFrame / limits::kNoticeBytesMax;
  for (size_t i = 0; i < kFitting + 1; ++i) EXPECT_TRUE(large.add(text(limits::kNoticeBytesMax)));
  EXPECT_EQ(large.report().size(), kFitting);
}

TEST(NoticeLedger, KeepsABoundedNumber) {
  NoticeLedger ledger;
  for (size_t i = 0; i < limits::kNoticesPendingMax; ++i) EXPECT_TRUE(ledger.add(text(1)));
  EXPECT_FALSE(ledger.add(text(1)));
  ledger.on_applied(1);
  EXPECT_TRUE(ledger.add(text(1)));
}

}  // namespace
}  // namespace r2ccl
