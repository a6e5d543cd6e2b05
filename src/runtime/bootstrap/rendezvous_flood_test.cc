// The rendezvous among strangers and many ranks: handshakes and descriptors are bounded, and ranks
// are served all the same.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/limits.h"
#include "protocol/wire/handshake_frames.h"
#include "testing/rendezvous_world.h"

namespace r2ccl {
namespace {

TEST_F(RendezvousTest, ThrowsOutGarbageAtOnceAndGoesOn) {
  serve();
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01"}) {
    stranger();
    settle();
    strangers_.back()->say(text);
  }
  join(0, 2);
  ASSERT_TRUE(run_until(
      [&] { return std::ranges::all_of(strangers_, [](auto& s) { return s->was_thrown_out(); }); },
      kSecond));
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
  EXPECT_EQ(server_->counters().refused, 3u);
}

TEST_F(RendezvousTest, ClosesConnectionsThatDoNotFinishInTime) {
  serve();
  Stranger& silent = stranger();
  Stranger& slow = stranger();
  settle();
  const std::vector<std::byte> hello = encode_without_seal(HelloFrame());
  const TimeNs start = now_;
  for (size_t i = 0; i < 4; ++i) {
    slow.say(std::span(hello).subspan(i, 1));
    ASSERT_FALSE(run_until([&] { return slow.was_thrown_out(); }, kSecond));
  }
  ASSERT_TRUE(run_until([&] { return slow.was_thrown_out(); }, kTimeout));
  EXPECT_LE(now_ - start, limits::kHandshakeAgeMax);
  EXPECT_TRUE(silent.was_thrown_out());
  EXPECT_EQ(server_->counters().evicted, 2u);
}

TEST_F(RendezvousTest, HasFewHandshakesWithRanksThatArriveAtOnce) {
  serve();
  constexpr int32_t kRanks = 200;
  for (int32_t rank = 0; rank < kRanks; ++rank) join(rank, kRanks);
  size_t most = 0;
  for (const TimeNs end = now_ + kSecond; !all(State::done) && now_ < end; now_ += kMillisecond) {
    progress();
    // The ranks are slow.
    for (int turn = 0; turn < 10; ++turn) {
      reactor_.poll(0);
      server_->progress(now_);
      most = std::max(most, server_->handshake_count());
    }
  }
  EXPECT_TRUE(all(State::done));
  EXPECT_GE(most, 64u);
  EXPECT_LE(most, 64u + 2 * 16u);
  EXPECT_EQ(server_->counters().evicted, 0u);
}

TEST_F(RendezvousTest, SilentStrangersHoldUpNoRank) {
  serve();
  for (int i = 0; i < 200; ++i) stranger();
  RendezvousClient& rank = join(0, 1);
  EXPECT_TRUE(run_until([&] { return rank.state() == State::done; }, kMillisecond));
}

TEST_F(RendezvousTest, StrangersThatGreetHoldUpRanksForAMomentOnly) {
  serve();
  for (int i = 0; i < 100; ++i) {
    Stranger& one = stranger();
    settle();
    one.say(make_rendezvous_initiator(job_, Rank(i), random_nonce())->output());
  }
  settle();
  RendezvousClient& rank = join(0, 1);
  EXPECT_FALSE(run_until([&] { return rank.state() == State::done; }, 190 * kMillisecond));
  EXPECT_TRUE(run_until([&] { return rank.state() == State::done; }, 20 * kMillisecond));
}

TEST_F(RendezvousTest, AFloodFromARanksOwnHostPushesItOutNoMore) {
  serve();
  RendezvousClient& rank = join(0, 1);
  for (int turn = 0; turn < 10; ++turn) {  // it shakes hands, and gets no further
    reactor_.poll(kMillisecond);
    rank.progress(now_);
  }
  server_->progress(now_);
  for (size_t i = 0; i < 2 * limits::kPendingHandshakesMax; ++i) {
    stranger();
    reactor_.poll(0);
    server_->progress(now_);  // the rank does other work
  }
  EXPECT_GT(server_->counters().evicted, limits::kPendingHandshakesMax / 2);
  EXPECT_TRUE(run_until([&] { return rank.state() == State::done; }, kMillisecond))
      << "it had to try again";
}

TEST_F(RendezvousTest, KeepsABoundedNumberOfPendingConnectionsAndServesTheRanks) {
  serve();
  join(0, 2);
  settle();
  for (size_t i = 0; i < limits::kPendingHandshakesMax + 50; ++i) {
    stranger();
    reactor_.poll(0);
    progress();
    EXPECT_LE(server_->connection_count(), limits::kPendingHandshakesMax + 1);
  }
  EXPECT_EQ(server_->counters().evicted, 50u);
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
}

TEST_F(RendezvousTest, AFloodFromAnotherHostPushesOutNoRank) {
  constexpr size_t kFlood = limits::kPendingHandshakesMax + 50;
  serve();
  RendezvousClient::Options options = options_of(0, 1);
  options.connect.source = *parse_address("127.0.0.2");
  RendezvousClient& rank = join(std::move(options));
  rank.progress(now_);
  for (size_t i = 0; i < kFlood; ++i) {
    stranger();
    now_ += kMillisecond;
    reactor_.poll(0);
    server_->progress(now_);  // the rank does other work
  }
  EXPECT_GE(server_->counters().evicted, 50u);
  EXPECT_TRUE(run_until([&] { return rank.state() == State::done; }, 10 * kMillisecond))
      << "it had to try again";
}

TEST_F(RendezvousTest, OutlivesDescriptorsRunningOut) {
  serve();
  settle();
  RendezvousClient& client = join(0, 1);
  client.progress(now_);  // connects, into the backlog
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  for (int i = 0; i < 20; ++i) {
    reactor_.poll(0);
    server_->progress(now_);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(server_->connection_count(), 0u);
  EXPECT_GT(server_->next_timeout(), now_);  // it pauses and does not spin
  EXPECT_TRUE(run_until([&] { return client.state() == State::done; }, kSecond));
}

}  // namespace
}  // namespace r2ccl
