#include "transport/faulty/faulty_transport.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <thread>

#include "transport/tcp/tcp_transport.h"

namespace r2ccl {
namespace {

constexpr const char* kNicA = "127.0.1.1";
constexpr const char* kNicB = "127.0.1.2";

// A clock that the test moves. The poller's waits are all of length 0, so nothing really waits.
class HandClock final : public Clock {
 public:
  TimeNs now() const override { return now_; }
  TimeNs wall() const override { return now_; }
  void advance(TimeNs by) { now_ += by; }

 private:
  TimeNs now_ = kSecond;
};

class FaultyTest : public testing::Test {
 protected:
  FaultyTest()
      : a_(open_tcp(), plan_a_, clock_), b_(open_tcp(), plan_b_, clock_), listener_(listen()) {
    connection_ = connect();
    for (int i = 0; i < 1000 && accepted_ == nullptr; ++i) accepted_ = listener_->accept();
    EXPECT_NE(accepted_, nullptr);
    EXPECT_EQ(connection_->connect_state(), ConnectState::established);
  }

  static std::unique_ptr<Transport> open_tcp() { return std::move(TcpTransport::open({})).value(); }
  std::unique_ptr<Listener> listen() {
    const Endpoint local{.address = *parse_address(kNicB), .port = 0};
    return std::move(b_.listen(local, "")).value();
  }
  std::unique_ptr<Connection> connect() {
    const ConnectOptions options{
        .device = "", .source = *parse_address(kNicA), .unsent_low_water = 0};
    return std::move(a_.connect(listener_->local(), options)).value();
  }
  static IoResult write(Connection& connection, std::string text) {
    const iovec slice{text.data(), text.size()};
    return connection.write({&slice, 1});
  }
  // Reads all available bytes; the last result says why there are no more.
  static std::string read(Connection& connection, IoResult* last = nullptr) {
    std::string out;
    for (;;) {
      char buffer[4096];
      const iovec slice{buffer, sizeof buffer};
      const IoResult result = connection.read({&slice, 1});
      if (last != nullptr) *last = result;
      if (result.kind != IoKind::progressed) return out;
      out.append(buffer, result.bytes);
    }
  }
  static bool readable(Transport& transport, int poll_id) {
    std::array<PollEvent, 1> events;
    EXPECT_TRUE(transport.poller().add(poll_id, 1, false).ok());
    // Twice: the wake-up of a changed plan may end the first look.
    size_t count = transport.poller().wait(events, 0);
    if (count == 0) count = transport.poller().wait(events, 0);
    transport.poller().remove(poll_id);
    return count == 1 && events[0].readable;
  }

  HandClock clock_;
  FaultPlan plan_a_;
  FaultPlan plan_b_;
  FaultyTransport a_;
  FaultyTransport b_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Connection> accepted_;
};

TEST_F(FaultyTest, ABlackHoleHoldsSentBytesAndReleasesThemWhenHealed) {
  plan_a_.set(kNicA, {.hole_tx = true});
  EXPECT_EQ(write(*connection_, "lost?").bytes, 5U) << "to the writer all looks well";
  EXPECT_EQ(connection_->info().unsent_bytes, 5U);
  EXPECT_EQ(connection_->info().unanswered_ns, kNever);
  EXPECT_EQ(read(*accepted_), "");
  ASSERT_EQ(write(*accepted_, "back").bytes, 4U);
  EXPECT_EQ(read(*connection_), "back") << "the hole is one-way";
  plan_a_.set(kNicA, {});
  EXPECT_EQ(write(*connection_, " no").bytes, 3U);
  EXPECT_EQ(read(*accepted_), "lost? no");
}

TEST_F(FaultyTest, ABlackHoleFillsUpAndThenBlocksTheWriter) {
  plan_a_.set(kNicA, {.hole_tx = true});
  const std::string block(10'000, 'x');
  size_t written = 0;
  for (int i = 0; i < 10; ++i) written += write(*connection_, block).bytes;
  EXPECT_EQ(written, HeldBytes::kCapacity);
  EXPECT_EQ(write(*connection_, block).kind, IoKind::blocked);
}

TEST_F(FaultyTest, ASmallQueueBlocksTheWriterSooner) {
  plan_a_.set(kNicA, {.hole_tx = true, .queue_bytes = 100});
  EXPECT_EQ(write(*connection_, std::string(90, 'x')).bytes, 90U);
  EXPECT_EQ(write(*connection_, std::string(90, 'y')).bytes, 10U);
  plan_a_.set(kNicA, {.hole_tx = true, .queue_bytes = 50});
  EXPECT_EQ(write(*connection_, "z").kind, IoKind::blocked) << "held bytes stay held";
  plan_a_.set(kNicA, {});
  EXPECT_EQ(write(*connection_, "z").bytes, 1U);
  EXPECT_EQ(read(*accepted_).size(), 101U);
}

TEST_F(FaultyTest, AReceiveBlackHoleHidesBytesAndEndsFromTheReader) {
  plan_a_.set(kNicA, {.hole_rx = true});
  ASSERT_EQ(write(*accepted_, "hidden").bytes, 6U);
  accepted_.reset();
  IoResult last;
  EXPECT_EQ(read(*connection_, &last), "");
  EXPECT_EQ(last.kind, IoKind::blocked);
  EXPECT_FALSE(readable(a_, connection_->poll_id()));
  plan_a_.set(kNicA, {});
  EXPECT_TRUE(readable(a_, connection_->poll_id()));
  EXPECT_EQ(read(*connection_, &last), "hidden");
  EXPECT_EQ(last.kind, IoKind::failed);
}

TEST_F(FaultyTest, ABlackHoleOfTheFarNicIsOneHereInTheOtherDirection) {
  plan_a_.set(kNicB, {.hole_rx = true});
  ASSERT_EQ(write(*connection_, "x").bytes, 1U);
  EXPECT_EQ(read(*accepted_), "");
  ASSERT_EQ(write(*accepted_, "y").bytes, 1U);
  EXPECT_EQ(read(*connection_), "y");
}

TEST_F(FaultyTest, AConnectThroughABlackHoleStaysPending) {
  plan_a_.set(kNicA, {.hole_rx = true});
  const std::unique_ptr<Connection> lost = connect();
  EXPECT_EQ(lost->connect_state(), ConnectState::pending);
  EXPECT_EQ(write(*lost, "x").kind, IoKind::blocked);
  EXPECT_FALSE(readable(a_, lost->poll_id()));
  plan_a_.set(kNicA, {});
  EXPECT_EQ(lost->connect_state(), ConnectState::pending);
  EXPECT_NE(connect()->connect_state(), ConnectState::pending);
}

TEST_F(FaultyTest, ANicThatIsDownFailsItsConnectionsAndItsPeersHearNothing) {
  plan_a_.set(kNicA, {.down = true});
  EXPECT_TRUE(readable(a_, connection_->poll_id()));
  IoResult last;
  read(*connection_, &last);
  EXPECT_EQ(last.error, ENETDOWN);
  EXPECT_EQ(connect()->connect_error(), ENETDOWN);
  connection_.reset();
  read(*accepted_, &last);
  EXPECT_EQ(last.kind, IoKind::blocked) << "a dead NIC sends no reset";
  plan_a_.set(kNicA, {});
  EXPECT_TRUE(a_.drain_nic_events());
  read(*accepted_, &last);
  EXPECT_EQ(last.kind, IoKind::failed) << "a healed one does";
}

TEST_F(FaultyTest, ADownNicShowsNoCarrierAndRaisesAnEvent) {
  plan_a_.set("lo", {});
  a_.drain_nic_events();
  EXPECT_FALSE(readable(a_, a_.nic_events_poll_id()));
  plan_a_.set("lo", {.down = true});
  EXPECT_TRUE(readable(a_, a_.nic_events_poll_id()));
  EXPECT_TRUE(a_.drain_nic_events());
  EXPECT_FALSE(a_.drain_nic_events());
  const Result<std::vector<Nic>> nics = a_.nics();
  ASSERT_TRUE(nics.ok());
  for (const Nic& nic : nics.value()) {
    EXPECT_FALSE(nic.name == "lo" && nic.carrier);
  }
}

TEST_F(FaultyTest, ASlowNicPassesItsRateAndNoMore) {
  constexpr uint64_t kRate = 1'000'000;
  plan_a_.set(kNicA, {.bytes_per_s = kRate});
  const std::string block(8192, 'x');
  size_t arrived = 0;
  constexpr int kMilliseconds = 500;
  for (int i = 0; i < kMilliseconds; ++i) {
    write(*connection_, block);
    arrived += read(*accepted_).size();
    clock_.advance(kMillisecond);
  }
  // 1 MB/s for half a second, within the 10 ms that may pass at once.
  EXPECT_NEAR(static_cast<double>(arrived), 500'000.0, 10'000.0);
}

TEST_F(FaultyTest, ADelayedNicAddsItsDelayEachWay) {
  plan_a_.set(kNicA, {.delay_ns = 5 * kMillisecond});
  ASSERT_EQ(write(*connection_, "there").bytes, 5U);
  ASSERT_EQ(write(*accepted_, "back").bytes, 4U);
  EXPECT_FALSE(readable(a_, connection_->poll_id()));  // this look takes it from the inner one
  clock_.advance(5 * kMillisecond - 1);
  EXPECT_FALSE(readable(a_, connection_->poll_id()));
  EXPECT_EQ(read(*accepted_), "");
  clock_.advance(1);
  EXPECT_TRUE(readable(a_, connection_->poll_id()));
  EXPECT_EQ(read(*connection_), "back");
  EXPECT_EQ(read(*accepted_), "there");
}

TEST_F(FaultyTest, DelayedBytesArriveThoughTheirWriterNeitherWatchesNorLives) {
  plan_a_.set(kNicA, {.delay_ns = 5 * kMillisecond});
  std::array<PollEvent, 1> events;
  ASSERT_EQ(write(*connection_, "left ").bytes, 5U);
  clock_.advance(5 * kMillisecond);
  a_.poller().wait(events, 0);
  EXPECT_EQ(read(*accepted_), "left ");

  ASSERT_EQ(write(*connection_, "behind").bytes, 6U);
  connection_.reset();
  IoResult last;
  EXPECT_EQ(read(*accepted_, &last), "");
  EXPECT_EQ(last.kind, IoKind::blocked) << "the end comes after the bytes";
  clock_.advance(5 * kMillisecond);
  a_.poller().wait(events, 0);
  EXPECT_EQ(read(*accepted_, &last), "behind");
  EXPECT_EQ(last.kind, IoKind::failed);
}

TEST_F(FaultyTest, TheEndOfATransportSendsDelayedBytes) {
  auto sender = std::make_unique<FaultyTransport>(open_tcp(), plan_a_, clock_);
  const ConnectOptions options{
      .device = "", .source = *parse_address(kNicA), .unsent_low_water = 0};
  auto connection = std::move(sender->connect(listener_->local(), options)).value();
  ASSERT_EQ(connection->connect_state(), ConnectState::established);
  const std::unique_ptr<Connection> accepted = listener_->accept();
  ASSERT_NE(accepted, nullptr);
  plan_a_.set(kNicA, {.bytes_per_s = 1, .delay_ns = 5 * kMillisecond});
  ASSERT_EQ(write(*connection, "last words").bytes, 10U);
  connection.reset();
  sender.reset();
  EXPECT_EQ(read(*accepted), "last words");
}

TEST_F(FaultyTest, ShortOperationsMoveOneByteEach) {
  plan_a_.set(FaultPlan::kEveryNic, {.short_io = true});
  EXPECT_EQ(write(*connection_, "abc").bytes, 1U);
  EXPECT_EQ(read(*accepted_), "a");
}

TEST_F(FaultyTest, AResetComesAtItsByteAndOnlyOnce) {
  plan_a_.reset_at(kNicA, Direction::transmit, 3);
  EXPECT_EQ(write(*connection_, "abcdef").bytes, 3U);
  IoResult last;
  EXPECT_EQ(write(*connection_, "def").error, ECONNRESET);
  EXPECT_EQ(read(*accepted_, &last), "abc");
  EXPECT_EQ(last.kind, IoKind::failed);
  const std::unique_ptr<Connection> next = connect();
  ASSERT_EQ(next->connect_state(), ConnectState::established);
  EXPECT_EQ(write(*next, "abcdef").bytes, 6U);
}

TEST_F(FaultyTest, APlanChangedOnAnotherThreadEndsAWait) {
  SystemClock real;
  FaultPlan plan;
  FaultyTransport transport(open_tcp(), plan, real);
  std::thread other([&] { plan.set(kNicA, {.hole_tx = true}); });
  std::array<PollEvent, 1> events;
  const TimeNs before = real.now();
  EXPECT_EQ(transport.poller().wait(events, 60 * kSecond), 0U);
  EXPECT_LT(real.now() - before, 30 * kSecond);
  other.join();
}

TEST(TokenBucket, PassesItsRateAndForgivesIdlingOnlyAMoment) {
  TokenBucket bucket(1'000'000);
  EXPECT_EQ(bucket.available(kSecond), 0U);
  EXPECT_EQ(bucket.available(kSecond + kMillisecond), 1000U);
  bucket.spend(1000);
  EXPECT_EQ(bucket.available(kSecond + kMillisecond), 0U);
  EXPECT_EQ(bucket.available(100 * kSecond), 10'000U);
  EXPECT_EQ(TokenBucket().available(0), SIZE_MAX);
}

TEST(HeldBytes, ReleasesInOrderAndInTime) {
  HeldBytes held;
  char text[] = "abcdef";
  const iovec first[] = {{text, 2}, {text + 2, 1}};
  EXPECT_EQ(held.append(first, 10), 3U);
  const iovec second{text + 3, 3};
  EXPECT_EQ(held.append({&second, 1}, 20), 3U);
  EXPECT_TRUE(held.front(9).empty());
  EXPECT_EQ(held.front(15).size(), 3U);
  held.drop_front(1);
  EXPECT_EQ(held.front(15)[0], 'b');
  held.drop_front(2);
  EXPECT_TRUE(held.front(15).empty());
  EXPECT_EQ(held.next_release(), 20);
  held.drop_front(3);
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(held.next_release(), kNever);
}

}  // namespace
}  // namespace r2ccl
