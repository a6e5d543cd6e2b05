#include "runtime/relay/relay_pipe.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "base/limits.h"
#include "testing/scripted_connection.h"
#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(size_t size, size_t seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) % 251);
  return bytes;
}

class RelayPipeTest : public testing::Test {
 protected:
  void open(Bytes early = {}) {
    auto near = std::make_unique<ScriptedConnection>(1);
    auto far = std::make_unique<ScriptedConnection>(2);
    near_ = near.get();
    far_ = far.get();
    pipe_.emplace(RelayHost{reactor_, scratch_},
                  RelayPipe::End{Rank(0), std::move(near), &near_queue_, 0},
                  RelayPipe::End{Rank(1), std::move(far), &far_queue_, 0}, std::move(early), now_);
    step();
  }
  void step(TimeNs by = kMillisecond) {
    now_ += by;
    reactor_.poll(0);
    pipe_->progress(now_);
    pipe_->check_invariants();
    EXPECT_EQ(far_queue_.outstanding(), pipe_->outstanding(far_queue_));
    EXPECT_EQ(far_queue_.busy_paths(), pipe_->busy(far_queue_));
  }
  // A portion is readable only after a read that was blocked.
  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }

  TimeNs now_ = kSecond;
  EagerPoller poller_;
  Reactor reactor_{poller_};
  std::vector<std::byte> scratch_ = std::vector<std::byte>(64 * 1024);
  NicQueue near_queue_;
  NicQueue far_queue_;
  ScriptedConnection* near_ = nullptr;  // live as long as the pipe
  ScriptedConnection* far_ = nullptr;
  std::optional<RelayPipe> pipe_;  // last: ends before the rest
};

TEST_F(RelayPipeTest, PassesAllBytesOnBothWaysInOrder) {
  open(pattern(10, 7));
  Bytes there = pattern(10, 7);
  Bytes back;
  for (size_t i = 1; i <= 20; ++i) {
    const Bytes one = pattern(i * 997, i);
    const Bytes other = pattern(i * 613, i + 1);
    near_->deliver(one);
    far_->deliver(other);
    there.insert(there.end(), one.begin(), one.end());
    back.insert(back.end(), other.begin(), other.end());
  }
  far_->limit_writes({0, 10, 0, 1, 300, 0, 0, 7});
  steps(100);
  EXPECT_EQ(far_->written(), there);
  EXPECT_EQ(near_->written(), back);
  EXPECT_FALSE(pipe_->over());
}

// Otherwise the NIC's own queue overflows, and the NIC looks as if it lost packets.
TEST_F(RelayPipeTest, GivesTheKernelNoMoreThanTheNicSendsInItsTime) {
  open();
  far_->hold_acknowledgements();
  const Bytes all = pattern(4 * 1024 * 1024, 3);
  near_->deliver(all);
  uint64_t most = 0;
  uint64_t taken = 0;
  for (int i = 0; i < 4000 && taken < all.size(); ++i) {
    step();
    most = std::max(most, far_queue_.outstanding());
    // The NIC sends 4 MB/s.
    const uint64_t sent = std::min<uint64_t>(4000, far_->written().size() - taken);
    far_->acknowledge(sent);
    taken += sent;
  }
  EXPECT_EQ(far_->written(), all);
  // The first guess of a NIC's rate is 30 MB/s, and no time is less than 4 ms.
  EXPECT_LE(most, 30'000'000 * 4 / 1000);
  const auto rate = static_cast<uint64_t>(far_queue_.bytes_per_ns() * 1e9);
  EXPECT_LT(rate, 6'000'000U);
  EXPECT_LE(RelayPipe::window(far_queue_, 0), 24 * 1024U);
}

TEST_F(RelayPipeTest, ReadsNothingWhileItHasNoRoom) {
  open();
  far_->hold_acknowledgements();
  near_->deliver(pattern(1024 * 1024, 1));
  steps(20);
  const size_t before = near_->reads();
  const size_t written = far_->written().size();
  steps(20);
  EXPECT_EQ(near_->reads(), before);
  EXPECT_EQ(far_->written().size(), written);
  EXPECT_LT(written, 256 * 1024U);
}

TEST_F(RelayPipeTest, SharesTheTimeOfANicWithItsOtherPaths) {
  NicQueue queue;
  const uint64_t alone = RelayPipe::window(queue, 0);
  queue.on_sent(1000, true, now_);
  queue.on_sent(1000, true, now_);
  EXPECT_EQ(RelayPipe::window(queue, 0), alone / 2);
  EXPECT_GT(RelayPipe::window(queue, kMillisecond), alone / 2);
}

TEST_F(RelayPipeTest, EndsOnlyWhenTheOtherEndHasTheLastBytes) {
  open();
  far_->hold_acknowledgements();
  far_->limit_writes({1000, 0, 0, 0, 0, 0});
  near_->deliver(pattern(3000, 1));
  near_->end_reads({IoKind::closed, 0, 0});
  steps(4);
  EXPECT_FALSE(pipe_->over()) << "it still holds bytes";
  far_->limit_writes({});
  steps(4);
  EXPECT_EQ(far_->written(), pattern(3000, 1));
  EXPECT_FALSE(pipe_->over()) << "a close would discard the kernel's bytes";
  far_->acknowledge(3000);
  step();
  EXPECT_TRUE(pipe_->over());
}

TEST_F(RelayPipeTest, WaitsForTheLastBytesForABoundedTime) {
  open();
  far_->hold_acknowledgements();
  near_->deliver(pattern(3000, 1));
  near_->end_reads({IoKind::failed, 0, ECONNRESET});
  steps(900);
  EXPECT_FALSE(pipe_->over());
  steps(200);
  EXPECT_TRUE(pipe_->over());
}

TEST_F(RelayPipeTest, DeliversTheBytesOfAnEndThatTakesNone) {
  open();
  far_->fail_writes(EPIPE);
  far_->deliver(pattern(500, 2));
  far_->end_reads({IoKind::failed, 0, ECONNRESET});
  near_->deliver(pattern(500, 1));
  steps(10);
  EXPECT_EQ(near_->written(), pattern(500, 2));
  EXPECT_TRUE(pipe_->over());
}

TEST_F(RelayPipeTest, TakesItsBytesOutOfTheAccountWhenItEnds) {
  open();
  far_->hold_acknowledgements();
  near_->deliver(pattern(3000, 1));
  steps(3);
  EXPECT_EQ(far_queue_.outstanding(), 3000U);
  pipe_.reset();
  EXPECT_EQ(far_queue_.outstanding(), 0U);
  EXPECT_EQ(far_queue_.busy_paths(), 0U);
}

}  // namespace
}  // namespace r2ccl
