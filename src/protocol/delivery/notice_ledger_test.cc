#include "protocol/delivery/notice_ledger.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

std::vector<std::byte> text(size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{7});
}

Notice notice(uint64_t subject, size_t bytes, uint8_t kind = 1) {
  return {{kind, subject}, text(bytes)};
}

TEST(NoticeLedger, RepeatsANoticeUntilItWasApplied) {
  NoticeLedger ledger;
  ledger.set(notice(1, 1));
  ledger.set(notice(2, 2));
  EXPECT_EQ(ledger.report().size(), 2u);
  EXPECT_EQ(ledger.report(), ledger.report());
  ledger.on_said(ledger.report());
  EXPECT_EQ(ledger.report().size(), 2u);
  EXPECT_FALSE(ledger.on_applied(1));
  ASSERT_EQ(ledger.report().size(), 1u);
  EXPECT_EQ(ledger.report().front(), (NoticeReport{1, text(2)}));
  EXPECT_FALSE(ledger.on_applied(0));  // an older acknowledgement arrives late
  EXPECT_EQ(ledger.pending(), 1u);
  EXPECT_FALSE(ledger.on_applied(2));
  EXPECT_EQ(ledger.pending(), 0u);
}

TEST(NoticeLedger, ANewerNoticeReplacesOneOfTheSameSlotOnly) {
  NoticeLedger ledger;
  ledger.set(notice(1, 1));
  ledger.set(notice(1, 2, 9));
  ledger.set(notice(2, 3));
  ledger.set(notice(1, 4));
  const std::vector<NoticeReport> said = ledger.report();
  const std::vector<NoticeReport> wanted = {{1, text(2)}, {2, text(3)}, {3, text(4)}};
  EXPECT_EQ(said, wanted);
  EXPECT_EQ(ledger.pending(1, 0, UINT64_MAX), 2u);
  EXPECT_EQ(ledger.pending(9, 0, UINT64_MAX), 1u);
  EXPECT_EQ(ledger.pending(2, 0, UINT64_MAX), 0u);
}

TEST(NoticeLedger, KeepsOneNoticeOfEachSlotHoweverManyWereSet) {
  NoticeLedger ledger;
  constexpr uint64_t kSlots = 3000;
  for (uint64_t i = 0; i < 10 * kSlots; ++i) ledger.set(notice(i % kSlots, 1 + i / kSlots));
  EXPECT_EQ(ledger.pending(), kSlots);
  NoticeLedger peer;
  std::vector<size_t> latest(kSlots);
  while (ledger.pending() > 0) {
    const std::vector<NoticeReport> said = ledger.report();
    ledger.on_said(said);
    for (const NoticeReport& each : said) {
      ASSERT_TRUE(peer.take(each.number));
      latest[each.number % kSlots] = each.bytes.size();
    }
    const bool more = ledger.on_applied(peer.applied());
    EXPECT_EQ(more, ledger.pending() > 0);
  }
  EXPECT_EQ(latest, std::vector<size_t>(kSlots, 10));
}

TEST(NoticeLedger, ANoticeThatWasReplacedOnItsWayCountsAsApplied) {
  NoticeLedger ledger;
  ledger.set(notice(1, 1));
  const auto early = ledger.report();
  ledger.set(notice(1, 2));
  NoticeLedger peer;
  ASSERT_TRUE(peer.take(early.front().number));
  EXPECT_FALSE(ledger.on_applied(peer.applied()));
  EXPECT_EQ(ledger.report().front().bytes, text(2)) << "the newer value is still to come";
  ASSERT_TRUE(peer.take(ledger.report().front().number));
  EXPECT_FALSE(peer.take(early.front().number)) << "a late frame brings the older value";
}

TEST(NoticeLedger, TakesEachNoticeOnceAndNoneThatIsOlder) {
  NoticeLedger ledger;
  EXPECT_TRUE(ledger.take(0));
  EXPECT_FALSE(ledger.take(0));
  EXPECT_TRUE(ledger.take(3));
  EXPECT_FALSE(ledger.take(2));
  EXPECT_EQ(ledger.applied(), 4u);
  EXPECT_FALSE(ledger.take(UINT64_MAX));
  EXPECT_EQ(ledger.applied(), 4u);
}

TEST(NoticeLedger, ReportsNoMoreThanOneFrameHolds) {
  NoticeLedger many;
  for (size_t i = 0; i < NoticeLedger::kPerFrame + 1; ++i) many.set(notice(i, 1));
  EXPECT_EQ(many.report().size(), NoticeLedger::kPerFrame);
  EXPECT_TRUE(many.on_applied(1)) << "the last one was in no frame";
  NoticeLedger large;
  constexpr size_t kFitting = NoticeLedger::kBytesPerFrame / limits::kNoticeBytesMax;
  for (size_t i = 0; i < kFitting + 1; ++i) large.set(notice(i, limits::kNoticeBytesMax));
  EXPECT_EQ(large.report().size(), kFitting);
}

}  // namespace
}  // namespace r2ccl
