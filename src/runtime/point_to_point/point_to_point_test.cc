#include "runtime/point_to_point/point_to_point.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "testing/fake_network.h"

namespace r2ccl {
namespace {

constexpr ChannelId kChannel{3};

class Job {
 public:
  Job(int32_t rank_count, uint64_t seed) : network(rank_count, seed) {
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      ends.push_back(
          std::make_unique<PointToPoint>(Rank(rank), kChannel, network.ports_of(Rank(rank))));
    }
  }
  void send(int from, int to, const std::vector<int32_t>& data, std::optional<Status>& result) {
    ends[static_cast<size_t>(from)]->send(Rank(to), std::as_bytes(std::span(data)), DataType::int32,
                                          into(result));
  }
  void receive(int at, int from, std::vector<int32_t>& data, std::optional<Status>& result) {
    ends[static_cast<size_t>(at)]->receive(Rank(from), std::as_writable_bytes(std::span(data)),
                                           DataType::int32, into(result));
  }

  FakeNetwork network;
  std::vector<std::unique_ptr<PointToPoint>> ends;

 private:
  static PointToPoint::Done into(std::optional<Status>& result) {
    return [&result](const Status& status) {
      EXPECT_FALSE(result.has_value()) << "done twice";
      result = status;
    };
  }
};

bool ok(const std::optional<Status>& result) {
  return result.has_value() && result->ok();
}

TEST(PointToPoint, MatchesTheNthSendWithTheNthReceiveOfEachPair) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Job job(3, seed);
    constexpr size_t kEach = 20;
    std::vector<std::vector<int32_t>> sent, received;
    for (size_t i = 0; i < 2 * kEach; ++i) {
      sent.emplace_back(i % 5, static_cast<int32_t>(i));
      received.emplace_back(i % 5, -1);
    }
    std::vector<std::optional<Status>> sends(2 * kEach), receives(2 * kEach);
    for (size_t i = 0; i < 2 * kEach; ++i) job.send(i % 2 == 0 ? 0 : 2, 1, sent[i], sends[i]);
    for (size_t i = 0; i < 2 * kEach; ++i) {
      job.receive(1, i % 2 == 0 ? 0 : 2, received[i], receives[i]);
    }
    job.network.run();
    for (size_t i = 0; i < 2 * kEach; ++i) {
      EXPECT_TRUE(ok(sends[i]));
      EXPECT_TRUE(ok(receives[i]));
      EXPECT_EQ(sent[i], received[i]);
    }
    for (const auto& end : job.ends) EXPECT_TRUE(end->idle());
  }
}

// Passes the calls on. One post runs out of memory.
class StarvingPort final : public MessagePort {
 public:
  StarvingPort(MessagePort& port, size_t posts) : port_(port), posts_(posts) {}
  void open_channel(ChannelId channel, MessageClient& client, Rank peer) override {
    port_.open_channel(channel, client, peer);
  }
  MessageNo post_send(ChannelId channel, std::span<const std::byte> bytes,
                      uint64_t context) override {
    if (posts_-- == 0) throw std::bad_alloc();
    return port_.post_send(channel, bytes, context);
  }
  MessageNo post_receive(ChannelId channel, std::span<std::byte> bytes, uint64_t context) override {
    return port_.post_receive(channel, bytes, context);
  }
  MessageNo post_standing_receive(ChannelId channel, std::span<std::byte> bytes) override {
    return port_.post_standing_receive(channel, bytes);
  }
  void release_send_buffers(ChannelId channel) override { port_.release_send_buffers(channel); }
  void cancel_channel(ChannelId channel) override {
    cancelled = true;
    port_.cancel_channel(channel);
  }
  bool cancelled = false;

 private:
  MessagePort& port_;
  size_t posts_;
};

TEST(PointToPoint, AnOperationWhoseCompletionRunsOutOfMemoryEndsOnceAndWithoutThePorts) {
  constexpr size_t kSends = limits::kMessagesPostedMax + 1;  // the last waits for a completion
  FakeNetwork network(2, 1);
  StarvingPort port(*network.ports_of(Rank(0))[1], kSends - 1);
  PointToPoint sender(Rank(0), kChannel, {nullptr, &port});
  PointToPoint receiver(Rank(1), kChannel, network.ports_of(Rank(1)));
  const std::array<std::byte, 4> bytes{};
  std::array<std::byte, 4> target{};
  std::vector<int> ended(kSends);
  Status how;
  for (size_t i = 0; i < kSends; ++i) {
    sender.send(Rank(1), bytes, DataType::int32, [&, i](const Status& status) {
      ++ended[i];
      how = status;
    });
  }
  receiver.receive(Rank(0), target, DataType::int32, [](const Status&) {});
  EXPECT_THROW(network.run(), std::bad_alloc);
  sender.abandon(Status::out_of_memory());
  EXPECT_EQ(ended, std::vector<int>(kSends, 1));
  EXPECT_EQ(how, Status::out_of_memory());
  EXPECT_TRUE(sender.idle());
  EXPECT_FALSE(port.cancelled);
}

TEST(PointToPoint, CutsALargeTransferIntoMessages) {
  Job job(2, 4);
  std::vector<int32_t> data(2 * limits::kMessageBytesMax / sizeof(int32_t) + 5);
  std::iota(data.begin(), data.end(), 0);
  std::vector<int32_t> arrived(data.size());
  std::optional<Status> sent, received;
  job.send(0, 1, data, sent);
  job.receive(1, 0, arrived, received);
  job.network.run();
  EXPECT_TRUE(ok(sent) && ok(received));
  EXPECT_EQ(data, arrived);
  EXPECT_EQ(job.network.messages(), 3u);
}

TEST(PointToPoint, PostsABoundedNumberOfMessagesAtATime) {
  Job job(2, 8);
  const size_t operations = limits::kMessagesPostedMax * 2 + 1;
  const std::vector<int32_t> data{1, 2, 3};
  std::vector<std::optional<Status>> sent(operations), received(operations);
  std::vector<std::vector<int32_t>> arrived(operations, std::vector<int32_t>(3));
  for (size_t i = 0; i < operations; ++i) job.send(0, 1, data, sent[i]);
  for (size_t i = 0; i < operations; ++i) job.receive(1, 0, arrived[i], received[i]);
  job.network.run();
  for (size_t i = 0; i < operations; ++i) {
    ASSERT_TRUE(ok(sent[i]) && ok(received[i]));
    ASSERT_EQ(arrived[i], data);
  }
}

TEST(PointToPoint, SendsToItself) {
  Job job(1, 0);
  const std::vector<int32_t> data{1, 2, 3};
  std::vector<int32_t> arrived(3);
  std::optional<Status> sent, received;
  job.send(0, 0, data, sent);
  EXPECT_FALSE(sent.has_value());
  EXPECT_EQ(job.ends[0]->unmatched_local(), 1U);
  EXPECT_TRUE(job.ends[0]->idle_but_local());
  job.receive(0, 0, arrived, received);
  EXPECT_TRUE(ok(sent) && ok(received));
  EXPECT_EQ(data, arrived);
  EXPECT_TRUE(job.ends[0]->idle());
}

TEST(PointToPoint, FindsThatCountsDiffer) {
  for (const size_t receiver_count : {0u, 2u, 4u}) {
    for (const int receiver : {0, 1}) {  // 0: a send to itself
      const std::vector<int32_t> data{1, 2, 3};
      std::vector<int32_t> arrived(receiver_count);
      std::optional<Status> sent, received;
      Job job(2, 0);
      job.send(0, receiver, data, sent);
      job.receive(receiver, 0, arrived, received);
      job.network.run();
      ASSERT_TRUE(received.has_value());
      EXPECT_EQ(received->code(), Code::invalid_usage);
    }
  }
}

TEST(PointToPoint, CancelEndsEverything) {
  Job job(2, 0);
  const std::vector<int32_t> data{1, 2, 3};
  std::vector<int32_t> arrived(3);
  std::optional<Status> sent, received, late;
  job.send(0, 1, data, sent);
  job.receive(0, 1, arrived, received);
  EXPECT_EQ(job.ends[0]->waits_on(), std::vector<Rank>{Rank(1)});
  const Status why(Code::aborted, "the test aborts");
  job.ends[0]->cancel(why);
  EXPECT_EQ(sent, why);
  EXPECT_EQ(received, why);
  job.send(0, 1, data, late);
  EXPECT_EQ(late, why);
  EXPECT_TRUE(job.ends[0]->idle());
}

}  // namespace
}  // namespace r2ccl
