#include "transport/shm/shm_poller.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace r2ccl {
namespace {

class TestClock final : public Clock {
 public:
  TimeNs now() const override { return now_; }
  TimeNs wall() const override { return now_; }
  void advance(TimeNs by) { now_ += by; }

 private:
  TimeNs now_ = kSecond;
};

// Counts how often it is asked, and has one event each time while `ready`.
class CountingPoller final : public Poller {
 public:
  Status add(int, uint64_t, bool) override { return {}; }
  void modify(int, uint64_t, bool) override {}
  void remove(int) override {}
  void wake() override {}
  size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) override {
    timeouts.push_back(timeout_ns);
    if (!ready) return 0;
    events[0] = {.token = kToken, .readable = true, .writable = false};
    return 1;
  }

  static constexpr uint64_t kToken = 7;
  bool ready = false;
  std::vector<TimeNs> timeouts;  // of each question
};

// One connection, whose other end is `peer_`.
class ShmPollerTest : public testing::Test {
 protected:
  ShmPollerTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    socket_of_peer_ = GuardedFd::from([&] { return ends[1]; });
    const GuardedFd file = ShmSegment::make_file();
    ShmSegment segment;
    EXPECT_EQ(segment.map(file.get()), 0);
    EXPECT_EQ(peer_.map(file.get()), 0);
    connection_ = std::make_unique<ShmConnection>(all_, GuardedFd::from([&] { return ends[0]; }),
                                                  Endpoint{}, std::move(segment));
    EXPECT_TRUE(poller_.add(connection_->poll_id(), kRing, false).ok());
  }
  ~ShmPollerTest() override { poller_.remove(connection_->poll_id()); }

  // Returns the tokens of the events.
  std::vector<uint64_t> wait(TimeNs timeout_ns, size_t most = 8) {
    std::vector<PollEvent> events(most);
    events.resize(poller_.wait(events, timeout_ns));
    std::vector<uint64_t> tokens;
    for (const PollEvent& event : events) tokens.push_back(event.token);
    return tokens;
  }
  size_t asked() const { return below_.timeouts.size(); }
  void write_a_byte() {
    std::byte byte{};
    const iovec one{&byte, 1};
    ShmRingWriter writer = peer_.writer(ShmEnd::accepting);
    EXPECT_EQ(writer.write({&one, 1}).bytes, 1U);
  }

  using Tokens = std::vector<uint64_t>;
  static constexpr uint64_t kRing = 1;

  TestClock clock_;
  CountingPoller below_;
  std::shared_ptr<ShmConnections> all_ = std::make_shared<ShmConnections>();
  GuardedFd socket_of_peer_;
  ShmSegment peer_;
  std::unique_ptr<ShmConnection> connection_;
  ShmPoller poller_{below_, clock_, all_};
};

TEST_F(ShmPollerTest, PollsWithoutATimeoutAskTheKernelNowAndThen) {
  EXPECT_EQ(wait(0), Tokens{});
  EXPECT_EQ(asked(), 1U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(wait(0), Tokens{});
  EXPECT_EQ(asked(), 1U);
  clock_.advance(ShmPoller::kKernelLook);
  EXPECT_EQ(wait(0), Tokens{});
  EXPECT_EQ(asked(), 2U);
}

TEST_F(ShmPollerTest, EachPollAsksTheKernelWhileOtherSocketsHaveEvents) {
  below_.ready = true;
  EXPECT_EQ(wait(0), Tokens{CountingPoller::kToken});
  below_.ready = false;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(wait(0), Tokens{});
  EXPECT_EQ(asked(), 11U);
  clock_.advance(ShmPoller::kKernelBusy);
  EXPECT_EQ(wait(0), Tokens{});
  EXPECT_EQ(wait(0), Tokens{});
  EXPECT_EQ(asked(), 12U);
}

TEST_F(ShmPollerTest, ASleepIsInTheKernelAndOnlyWhereNoRingIsReady) {
  EXPECT_EQ(wait(kSecond), Tokens{});
  EXPECT_EQ(below_.timeouts, (std::vector<TimeNs>{kSecond}));
  write_a_byte();
  EXPECT_EQ(wait(kSecond), Tokens{kRing});
  EXPECT_EQ(asked(), 1U);
}

TEST_F(ShmPollerTest, AReadyRingLeavesRoomForAnEventOfTheKernel) {
  write_a_byte();
  below_.ready = true;
  EXPECT_EQ(wait(0), (Tokens{kRing, CountingPoller::kToken}));
  EXPECT_EQ(wait(0, 1), Tokens{CountingPoller::kToken});
  below_.ready = false;
  EXPECT_EQ(wait(0, 1), Tokens{kRing});
}

}  // namespace
}  // namespace r2ccl
