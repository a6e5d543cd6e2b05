#include "runtime/peers/peer_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/limits.h"
#include "testing/link_surroundings.h"
#include "testing/scripted_connection.h"

namespace r2ccl {
namespace {

constexpr Rank kSelf{1};
constexpr size_t kRanks = 4;
constexpr ChannelId kChannel{1};
// A message of this size needs a path. Smaller ones are copied, and complete one in each pass.
constexpr size_t kLarge = 4 * limits::kBufferedBytesPerChannel;

// A clock that advances at each reading, as it does while links work.
class BusyClock final : public Clock {
 public:
  TimeNs now() const override { return at += step; }
  TimeNs wall() const override { return at; }
  mutable TimeNs at = kSecond;
  TimeNs step = 0;
};

// The surroundings of links that never get a connection.
class TableHost final : public LinkSurroundings {
 public:
  BusyClock busy_clock;
  std::vector<Rank> cut_off;

  const Clock& clock() const override { return busy_clock; }
  BusyLinks& busy_links() override { return table.busy_links(); }
  void wake(Rank peer) override { table.wake(peer); }
  void on_peer_end(Rank peer, PeerEnd, const std::string&) override { cut_off.push_back(peer); }

  PeerTable table;  // its links use the others
};

// The links of rank 1 of four ranks, after their first pass.
class PeerTableTest : public testing::Test, protected MessageClient {
 protected:
  PeerTableTest() {
    table_.reserve(kRanks);
    for (const int32_t peer : {0, 2, 3}) {
      PathSpec path;
      path.local_nic = path.remote_nic = NicId(0);
      LinkSettings settings;
      settings.cutoff = kCutoff;
      auto link = std::make_unique<Link>(host_, kSelf, Rank(peer), std::vector{path}, settings);
      link->open_channel(kChannel, *this, Rank(peer));
      table_.add(std::move(link));
    }
    EXPECT_TRUE(table_.has_more()) << "a new link dials at once";
    pass();
    EXPECT_FALSE(table_.has_more());
  }

  // One pass of the engine.
  void pass(TimeNs share = kNever) {
    pauses_.begin(clock_.at);
    table_.mark_due(clock_.at);
    table_.progress(clock_.at, share, pauses_);
    table_.check_invariants();
    pauses_.end();
    pauses_.promise(table_.has_more() ? clock_.at : table_.next_deadline());
  }
  void send(int32_t peer, size_t bytes = 1) {
    (void)table_.find(Rank(peer))->post_send(kChannel, std::span(memory_).first(bytes), 0);
  }
  // The peer dials, and then the cable of this rank's NIC is pulled.
  void connect_and_lose(Rank peer) {
    EstablishedConnection connection;
    connection.connection = std::make_unique<ScriptedConnection>();
    connection.session.identity.kind = ConnectionKind::control;
    connection.session.incarnation = Incarnation(1);
    connection.came_by = NicId(0);
    Link& link = *table_.find(peer);
    link.adopt(std::move(connection));
    EXPECT_TRUE(link.paths()[0]->state.connected());
    pass();
    link.on_nic_change(NicId(0), false, DownCause::carrier_lost);
    pass();
    EXPECT_FALSE(link.paths()[0]->state.connected());
  }
  void on_sent(Rank peer, ChannelId, MessageNo) override {
    sent_.push_back(peer.value());
    if (sends_for_ever_) send(peer.value());
  }
  void on_received(Rank, ChannelId, MessageNo, uint64_t) override {}
  void on_mismatch(Rank, ChannelId, const Status&) override {}

  static constexpr TimeNs kCutoff = 60 * kSecond;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kLarge);
  std::vector<int32_t> sent_;  // the peers whose messages have ended
  bool sends_for_ever_ = false;
  TableHost host_;
  PeerTable& table_ = host_.table;
  BusyClock& clock_ = host_.busy_clock;
  PauseMeter pauses_{clock_};
};

TEST_F(PeerTableTest, FindsTheLinkOfEachPeerAndNoneOfItsOwnRank) {
  EXPECT_EQ(table_.ranks(), kRanks);
  EXPECT_EQ(table_.find(kSelf), nullptr);
  ASSERT_EQ(table_.links().size(), 3U);
  for (Link* link : table_.links()) EXPECT_EQ(table_.find(link->peer()), link);
}

TEST_F(PeerTableTest, LinksTakeTurnsInTheOrderOfTheirRanks) {
  for (int i = 0; i < 3; ++i) send(3);
  for (int i = 0; i < 3; ++i) send(0);
  pass();
  EXPECT_EQ(sent_, (std::vector{0, 3, 0, 3, 0, 3}));
  EXPECT_FALSE(table_.has_more());
}

// Other communicators of the process wait for their share.
TEST_F(PeerTableTest, LeavesTheRestForTheNextPassOnceItsShareIsUsedUp) {
  for (int i = 0; i < 5; ++i) send(2);
  clock_.step = kMillisecond;
  pass(1);
  EXPECT_EQ(sent_.size(), 1U) << "work that never ends must not starve this table";
  EXPECT_TRUE(table_.has_more());
  clock_.step = 0;
  pass();
  EXPECT_EQ(sent_.size(), 5U);
}

TEST_F(PeerTableTest, EndsAPassThatAlwaysFindsMoreWork) {
  sends_for_ever_ = true;
  send(0);
  pass();
  EXPECT_GT(sent_.size(), 1U) << "completions bring work that needs no further pass";
  EXPECT_TRUE(table_.has_more());
  sends_for_ever_ = false;
  pass();
  EXPECT_FALSE(table_.has_more());
}

// A link that went on would take the time of the pause for its peer's silence.
TEST_F(PeerTableTest, APauseInTheMiddleEndsThePass) {
  for (int i = 0; i < 3; ++i) send(0);
  clock_.step = kSecond;
  pass();
  EXPECT_EQ(sent_.size(), 1U);
  clock_.step = 0;
  pass();
  EXPECT_EQ(sent_.size(), 3U);
}

TEST_F(PeerTableTest, ALinkHasItsPassAtItsDeadlineAndNotBefore) {
  const TimeNs deadline = table_.next_deadline();
  ASSERT_GT(deadline, clock_.at);
  ASSERT_NE(deadline, kNever) << "the links dial again";
  table_.mark_due(deadline - 1);
  EXPECT_FALSE(table_.has_more());
  clock_.at = deadline;
  table_.mark_due(deadline);
  EXPECT_TRUE(table_.has_more());
  pass();
  EXPECT_GT(table_.next_deadline(), deadline);
}

// The thread spins while it has unsent chunks, so a link that has gone quiet must not count.
TEST_F(PeerTableTest, HasUnsentChunksUntilTheLastLinkHasNone) {
  EXPECT_FALSE(table_.has_unsent());
  for (const int32_t peer : {2, 3}) send(peer, kLarge);
  pass();
  EXPECT_FALSE(table_.has_more());
  for (const int32_t peer : {2, 3}) {
    EXPECT_TRUE(table_.has_unsent()) << "the chunks to " << peer << " wait for a path";
    table_.find(Rank(peer))->cancel_channel(kChannel);
    pass();
  }
  EXPECT_FALSE(table_.has_unsent());
}

// While this rank was stopped, nothing could reach it. That says nothing about the peer.
TEST_F(PeerTableTest, ALinkTakesNoPauseOfThisRankForThePeersAbsence) {
  connect_and_lose(Rank(0));
  clock_.at += 3 * kCutoff;
  for (int i = 0; i < 3; ++i) pass();
  EXPECT_TRUE(host_.cut_off.empty());
  const TimeNs end = clock_.at + 2 * kCutoff;
  while (clock_.at < end) {
    clock_.at = table_.next_deadline();
    pass();
  }
  EXPECT_EQ(host_.cut_off, std::vector{Rank(0)}) << "an absence without a pause counts";
}

}  // namespace
}  // namespace r2ccl
