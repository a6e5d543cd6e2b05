// Notices to a peer that applies none for a long time.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "protocol/delivery/notice_ledger.h"
#include "runtime/link/notice.h"
#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

std::vector<std::byte> body(uint64_t value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A peer that applies the frames it receives, one at a time.
struct Reader {
  NoticeLedger ledger;
  std::map<uint8_t, std::vector<std::vector<std::byte>>> read;  // by kind, in order

  void hear(const ControlFrame& frame) {
    for (const NoticeReport& notice : frame.notices) {
      if (!ledger.take(notice.number)) continue;
      const auto kind = std::to_integer<uint8_t>(notice.bytes[0]);
      read[kind].emplace_back(notice.bytes.begin() + 1, notice.bytes.end());
    }
  }
};

TEST(LinkNotices, APeerThatReadNothingForLongLearnsTheLatestOfEverySlot) {
  constexpr uint64_t kVerdicts = 5000;
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  s.link().send_notice(make_notice(NoticeKind::failure, body(77)));
  for (uint64_t i = 0; i < kVerdicts; ++i) {
    s.link().send_notice(make_notice(NoticeKind::verdict, i, body(i)));
    s.link().send_notice(make_notice(NoticeKind::address, i % 3, body(i)));
    s.link().send_notice(make_notice(NoticeKind::drained, body(i)));
    if (i % 100 == 0) s.step();
  }
  EXPECT_EQ(s.link().notices_pending(), kVerdicts + 1 + 3 + 1);
  EXPECT_FALSE(s.link().notices_delivered());

  Reader reader;
  size_t frames = 0;
  while (!s.link().notices_delivered() && ++frames < kVerdicts) {
    s.heard().clear();
    s.pass(kMillisecond);
    for (const ControlFrame& frame : s.heard()) reader.hear(frame);
    ControlFrame answer = s.state();
    answer.notices_applied = reader.ledger.applied();
    s.heard().clear();
    s.say(0, answer);
    for (const ControlFrame& frame : s.heard()) reader.hear(frame);
  }
  ASSERT_TRUE(s.link().notices_delivered());
  EXPECT_LE(frames, 2 * kVerdicts / NoticeLedger::kPerFrame) << "each answer brings the next ones";
  const auto kind = [](NoticeKind each) { return static_cast<uint8_t>(each); };
  ASSERT_EQ(reader.read[kind(NoticeKind::failure)].size(), 1u);
  EXPECT_EQ(reader.read[kind(NoticeKind::failure)][0], body(77));
  ASSERT_EQ(reader.read[kind(NoticeKind::verdict)].size(), kVerdicts);
  for (uint64_t i = 0; i < kVerdicts; ++i) {
    ASSERT_EQ(reader.read[kind(NoticeKind::verdict)][i], body(i)) << "verdicts come in order";
  }
  EXPECT_EQ(reader.read[kind(NoticeKind::drained)].back(), body(kVerdicts - 1));
  const auto& addresses = reader.read[kind(NoticeKind::address)];
  ASSERT_GE(addresses.size(), 3u);
  for (uint64_t back = 1; back <= 3; ++back) {
    EXPECT_EQ(addresses[addresses.size() - back], body(kVerdicts - back));
  }
}

// The kernel of a stopped rank keeps the bytes that are sent to it.
TEST(LinkNotices, ManyNoticesToASilentPeerCostFewFrames) {
  ScriptedLink s(2);
  s.connect(0);
  s.connect(1);
  s.link().send_notice(make_notice(NoticeKind::failure, body(1)));
  for (int i = 0; i < 100; ++i) s.pass(50 * kMillisecond);  // by now the peer is known to be silent
  s.heard().clear();
  for (uint64_t i = 0; i < 1000; ++i) {
    s.link().send_notice(make_notice(NoticeKind::verdict, i, body(i)));
    s.pass(kMillisecond);
  }
  EXPECT_LE(s.heard().size(), 20u);
}

const std::vector<std::byte> kBody = {std::byte{1}, std::byte{2}, std::byte{3}};

TEST(Notice, OfTheFirstContextHasNothingBeforeItsBody) {
  const Notice notice = make_notice(NoticeKind::calls, 4, kBody);
  EXPECT_EQ(notice.bytes.size(), 1 + kBody.size());
  const NoticeView read = view_notice(notice.bytes);
  EXPECT_EQ(read.kind, NoticeKind::calls);
  EXPECT_EQ(read.context, ContextId());
  EXPECT_EQ(std::vector(read.body.begin(), read.body.end()), kBody);
}

TEST(Notice, OfAnotherContextSaysWhich) {
  const ContextId context(kContextMax);
  const Notice notice = make_notice(NoticeKind::ended, 4, kBody, context);
  EXPECT_EQ(notice.slot, (NoticeSlot{static_cast<uint8_t>(NoticeKind::ended), 4, context.value()}));
  const NoticeView read = view_notice(notice.bytes);
  EXPECT_EQ(read.kind, NoticeKind::ended);
  EXPECT_EQ(read.context, context);
  EXPECT_EQ(read.subject, 4U);
  EXPECT_EQ(std::vector(read.body.begin(), read.body.end()), kBody);
}

TEST(Notice, ThatIsCutShortIsNone) {
  const Notice notice = make_notice(NoticeKind::ended, 4, {}, ContextId(9));
  for (size_t size = 0; size < notice.bytes.size(); ++size) {
    const NoticeView read = view_notice(std::span(notice.bytes).first(size));
    EXPECT_EQ(read.kind, NoticeKind{}) << size;
    EXPECT_TRUE(read.body.empty());
  }
}

// Its channels would have the numbers of other contexts.
TEST(Notice, OfAContextThatCannotBeIsNone) {
  const ContextId beyond(kContextMax.value() + 1);
  EXPECT_EQ(view_notice(make_notice(NoticeKind::ended, 0, {}, beyond).bytes).kind, NoticeKind{});
  EXPECT_EQ(context_of(channel_of(kContextMax, kChannelsOfContext - 1)), kContextMax);
}

}  // namespace
}  // namespace r2ccl
