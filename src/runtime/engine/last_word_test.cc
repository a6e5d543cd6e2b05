#include "runtime/engine/last_word.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

constexpr TimeNs kBegin = 5 * kSecond;

std::vector<std::byte> notice(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A rank with two links that have halted, and its last word.
class LastWordTest : public testing::Test {
 protected:
  LastWordTest() {
    for (ScriptedLink* each : {&first_, &second_}) {
      each->connect(0);
      each->step();
      each->heard().clear();
    }
  }

  void begin() {
    for (Link* link : links_) link->halt();
    word_.begin(kBegin);
  }
  void tell(TimeNs after = 0) {
    word_.tell(kBegin + after, links_);
    if (!connected()) return;
    first_.take();
    second_.take();
  }
  // Lets the peer's kernel take these numbers of bytes from the next writes.
  static void limit(ScriptedLink& peer, std::deque<size_t> bytes) {
    peer.control(0).limit_writes(std::move(bytes));
  }
  // Returns the notices that the peer has been told.
  static std::vector<std::vector<std::byte>> told(ScriptedLink& peer) {
    std::vector<std::vector<std::byte>> notices;
    for (const ControlFrame& frame : peer.heard()) {
      for (const NoticeReport& each : frame.notices) notices.push_back(each.bytes);
    }
    return notices;
  }
  bool connected() const {
    return std::ranges::any_of(links_,
                               [](Link* link) { return link->paths()[0]->control_writable(); });
  }

  const std::vector<std::vector<std::byte>> once_ = {notice("no memory")};
  ScriptedLink first_{2};  // one path of each link is not connected
  ScriptedLink second_{2};
  std::array<Link*, 2> links_ = {&first_.link(), &second_.link()};
  LastWord word_;
};

TEST_F(LastWordTest, TellsEachPeerOnceWhatWasReservedLast) {
  word_.reserve(notice("an earlier one"));
  word_.reserve(notice("no memory"));
  EXPECT_FALSE(word_.begun());
  begin();
  EXPECT_TRUE(word_.begun());
  EXPECT_FALSE(word_.told());
  for (int i = 0; i < 3; ++i) tell();
  EXPECT_TRUE(word_.told());
  EXPECT_EQ(told(first_), once_);
  EXPECT_EQ(told(second_), once_);
  EXPECT_TRUE(connected()) << "the kernel would discard the notice";
  EXPECT_EQ(word_.next_timeout(kBegin), kNever);
}

TEST_F(LastWordTest, APeerThatDoesNotReadKeepsNoOtherWaiting) {
  word_.reserve(notice("no memory"));
  begin();
  limit(first_, {0, 0});
  for (int i = 0; i < 2; ++i) {
    tell();
    EXPECT_EQ(told(second_), once_);
    EXPECT_TRUE(told(first_).empty());
    EXPECT_FALSE(word_.told());
    EXPECT_GT(word_.next_timeout(kBegin), kBegin) << "no spinning";
    EXPECT_NE(word_.next_timeout(kBegin), kNever);
  }
  tell();
  EXPECT_EQ(told(first_), once_);
  EXPECT_EQ(told(second_), once_);
  EXPECT_TRUE(word_.told());
}

// All links share the memory of the frame, which differs for each.
TEST_F(LastWordTest, GoesOnInTheMiddleOfAFrameAfterOtherPeersWereTold) {
  word_.reserve(notice("no memory"));
  second_.link().send_notice({{}, notice("of this link alone")});
  second_.step();
  second_.heard().clear();
  begin();
  limit(first_, {7, 0, 9, 0});
  limit(second_, {3, 0});
  for (int i = 0; i < 4; ++i) tell();
  EXPECT_TRUE(word_.told());
  EXPECT_EQ(told(first_), once_);
  EXPECT_EQ(told(second_), once_);
}

// So the peer finds this rank gone, and does not wait for it.
TEST_F(LastWordTest, ClosesTheConnectionsWhenSomePeerReadsNothingForLong) {
  word_.reserve(notice("no memory"));
  begin();
  limit(first_, std::deque<size_t>(10, 0));
  tell();
  tell(kSecond / 2);
  EXPECT_FALSE(word_.told());
  EXPECT_TRUE(connected());
  tell(10 * kSecond);
  EXPECT_TRUE(word_.told());
  EXPECT_FALSE(connected());
  EXPECT_EQ(word_.next_timeout(kBegin), kNever);
}

TEST_F(LastWordTest, ClosesTheConnectionsOfARankThatHasNotStarted) {
  begin();
  EXPECT_TRUE(connected());
  tell();
  EXPECT_TRUE(word_.told());
  EXPECT_FALSE(connected());
}

}  // namespace
}  // namespace r2ccl
