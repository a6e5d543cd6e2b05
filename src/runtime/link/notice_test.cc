#include "runtime/link/notice.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace r2ccl {
namespace {

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
