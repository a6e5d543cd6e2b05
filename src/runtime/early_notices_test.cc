#include "runtime/early_notices.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace r2ccl {
namespace {

constexpr Rank kPeer{3};
constexpr ContextId kContext{77'000};

std::vector<std::byte> bytes_of(NoticeKind kind, ContextId context, uint64_t subject, int value) {
  const std::vector<std::byte> body(4, static_cast<std::byte>(value));
  return make_notice(kind, subject, body, context).bytes;
}

class EarlyNoticesTest : public testing::Test {
 protected:
  void keep(Rank peer, NoticeKind kind, ContextId context, uint64_t subject, int value) {
    const std::vector<std::byte> bytes = bytes_of(kind, context, subject, value);
    notices_.keep(peer, view_notice(bytes), bytes);
  }
  // Returns the peers and first bytes of the notices of a context, which are forgotten then.
  std::vector<std::pair<Rank, int>> take(ContextId wanted) {
    std::vector<std::pair<Rank, int>> taken;
    notices_.take([&](ContextId context) { return context == wanted; },
                  [&](Rank peer, std::span<const std::byte> bytes) {
                    const NoticeView notice = view_notice(bytes);
                    EXPECT_EQ(notice.context, wanted);
                    taken.emplace_back(peer, static_cast<int>(notice.body.front()));
                  });
    return taken;
  }
  EarlyNotices notices_;
};

TEST_F(EarlyNoticesTest, KeepTheLatestOfEachSlot) {
  keep(kPeer, NoticeKind::calls, kContext, 1, 10);
  keep(kPeer, NoticeKind::calls, kContext, 2, 20);
  keep(Rank(4), NoticeKind::calls, kContext, 1, 30);
  keep(kPeer, NoticeKind::calls, kContext, 1, 11);
  keep(kPeer, NoticeKind::calls, ContextId(5), 1, 40);
  using All = std::vector<std::pair<Rank, int>>;
  EXPECT_EQ(take(kContext), (All{{kPeer, 11}, {kPeer, 20}, {Rank(4), 30}}));
  EXPECT_EQ(take(kContext), All{});
  EXPECT_EQ(take(ContextId(5)), (All{{kPeer, 40}}));
}

TEST_F(EarlyNoticesTest, KeepNothingBesideAnEnd) {
  keep(kPeer, NoticeKind::calls, kContext, 1, 10);
  EXPECT_FALSE(notices_.has_end(kPeer, kContext));
  keep(kPeer, NoticeKind::failure, kContext, 0, 20);
  keep(kPeer, NoticeKind::calls, kContext, 2, 30);
  EXPECT_TRUE(notices_.has_end(kPeer, kContext));
  EXPECT_FALSE(notices_.has_end(Rank(4), kContext));
  EXPECT_EQ(take(kContext), (std::vector<std::pair<Rank, int>>{{kPeer, 20}}));
  EXPECT_FALSE(notices_.has_end(kPeer, kContext));
}

// A faulty peer invents contexts and subjects without end.
TEST_F(EarlyNoticesTest, AreBounded) {
  for (uint64_t i = 0; i < 10'000; ++i) {
    keep(kPeer, NoticeKind::view, ContextId(100 + i), 0, 1);
    keep(Rank(4), NoticeKind::view, kContext, i, 1);
  }
  EXPECT_LE(notices_.size(), 4 * limits::kContextsUnopenedMax + 8);
  const size_t full = notices_.size();
  keep(kPeer, NoticeKind::view, ContextId(100), 0, 9);
  EXPECT_EQ(notices_.size(), full);
  EXPECT_EQ(take(ContextId(100)).front().second, 9) << "what is kept stays up to date";
  for (uint64_t i = 0; i < 10'000; ++i) keep(kPeer, NoticeKind::ended, ContextId(20'000 + i), 0, 1);
  EXPECT_LE(notices_.size(), full + 128) << "they count apart, so that good ones have room";
  keep(Rank(5), NoticeKind::ended, kContext, 0, 7);
  EXPECT_EQ(take(kContext).back(), (std::pair{Rank(5), 7})) << "other peers have their own room";
}

}  // namespace
}  // namespace r2ccl
