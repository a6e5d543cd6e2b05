// Processes that connect as NCCL's do, in one process: each has an engine of its own.
#include "nccl/net.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "base/limits.h"

namespace r2ccl::nccl {
namespace {

using Handle = std::array<std::byte, kHandleBytes>;

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 31 + seed * 7 + i / 251);
  return data;
}

// The parameter is R2CCL_SHM: whether the two go through shared memory.
class NetTest : public testing::TestWithParam<const char*> {
 protected:
  NetTest() {
    setenv("R2CCL_SOCKET_IFNAME", "lo", 1);
    setenv("R2CCL_SHM", GetParam(), 1);
  }

  std::unique_ptr<Net> make() {
    auto net = Net::open(1, [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(text);
    });
    EXPECT_TRUE(net.ok()) << net.status().message();
    return std::move(net).value();
  }

  struct Pair {
    Comm* send = nullptr;
    Comm* receive = nullptr;
  };
  // Connects `from` to a listener of `to`, as NCCL's proxies do: by turns.
  static Pair connect(Net& from, Net& to, uint32_t listener, Handle handle) {
    Pair pair;
    for (int i = 0; i < 200'000 && (pair.send == nullptr || pair.receive == nullptr); ++i) {
      if (pair.send == nullptr) pair.send = from.connect(0, handle).value();
      if (pair.receive == nullptr) pair.receive = to.accept(listener).value();
    }
    EXPECT_NE(pair.send, nullptr);
    EXPECT_NE(pair.receive, nullptr);
    return pair;
  }
  static Pair connect(Net& from, Net& to) {
    Handle handle{};
    const uint32_t listener = to.listen(handle).value();
    const Pair pair = connect(from, to, listener, handle);
    to.close_listener(listener);
    return pair;
  }

  static Outcome wait(WireEnd::Request* request, int* sizes) {
    bool done = false;
    Outcome outcome = kSuccess;
    while (!done && outcome == kSuccess) outcome = request->test(&done, sizes);
    return outcome;
  }

  static WireEnd::Request* send(const Pair& pair, std::span<const std::byte> bytes, int tag = 0) {
    return pair.send->end()->send(bytes, tag);
  }
  static WireEnd::Request* receive(const Pair& pair, std::span<std::byte> bytes, int tag = 0) {
    return pair.receive->end()->receive({&bytes, 1}, &tag);
  }

  // Sends a message of each size, the receiver's buffer is larger, and checks every byte.
  static void exchange(const Pair& pair, const std::vector<size_t>& sizes, unsigned seed) {
    std::vector<std::vector<std::byte>> sources, targets;
    std::vector<WireEnd::Request*> sends, receives;
    for (const size_t size : sizes) {
      sources.push_back(pattern(size, seed + static_cast<unsigned>(size)));
      targets.push_back(std::vector<std::byte>(size + 64, std::byte{0xee}));
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      sends.push_back(send(pair, sources[i]));
      receives.push_back(receive(pair, targets[i]));
      ASSERT_NE(sends.back(), nullptr);
      ASSERT_NE(receives.back(), nullptr);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      int sent = 0;
      int received = 0;
      ASSERT_EQ(wait(sends[i], &sent), kSuccess);
      ASSERT_EQ(wait(receives[i], &received), kSuccess);
      EXPECT_EQ(static_cast<size_t>(sent), sizes[i]);
      EXPECT_EQ(static_cast<size_t>(received), sizes[i]);
      EXPECT_EQ(std::memcmp(sources[i].data(), targets[i].data(), sizes[i]), 0) << sizes[i];
      EXPECT_EQ(targets[i][sizes[i]], std::byte{0xee}) << "a byte behind the message";
    }
  }

  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_P(NetTest, CarriesMessagesOfAllSizesBothWays) {
  const auto a = make();
  const auto b = make();
  const Pair there = connect(*a, *b);
  const Pair back = connect(*b, *a);
  for (unsigned round = 0; round < 3; ++round) {
    exchange(there, {0, 1, 4096, 70'000, 1'000'000, 3}, round);
    exchange(back, {8, 0, 300'000}, round + 100);
  }
  exchange(there, {limits::kMessageBytesMax - 64}, 7);
  for (Comm* comm : {there.send, back.send}) (comm == there.send ? a : b)->close(comm);
  for (Comm* comm : {there.receive, back.receive}) (comm == there.receive ? b : a)->close(comm);
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_P(NetTest, ConnectsToItself) {
  const auto net = make();
  const Pair pair = connect(*net, *net);
  exchange(pair, {100, 200'000}, 1);
  const Pair second = connect(*net, *net);
  exchange(second, {5}, 2);
  for (Comm* comm : {pair.send, pair.receive, second.send, second.receive}) net->close(comm);
}

TEST_P(NetTest, MakesManyConnectionsOverOneListener) {
  const auto a = make();
  const auto b = make();
  Handle handle{};
  const uint32_t listener = b->listen(handle).value();
  std::vector<Pair> pairs;
  for (int i = 0; i < 40; ++i) pairs.push_back(connect(*a, *b, listener, handle));
  for (size_t i = 0; i < pairs.size(); ++i) {
    exchange(pairs[i], {i, 1000 * i}, static_cast<unsigned>(i));
  }
  b->close_listener(listener);
  for (const Pair& pair : pairs) a->close(pair.send);
  for (const Pair& pair : pairs) b->close(pair.receive);
}

// The asks of both meet; one link comes of them.
TEST_P(NetTest, ConnectsWhenBothAskAtOnce) {
  const auto a = make();
  const auto b = make();
  for (int round = 0; round < 20; ++round) {
    Handle of_a{}, of_b{};
    const uint32_t listener_a = a->listen(of_a).value();
    const uint32_t listener_b = b->listen(of_b).value();
    Pair there, back;
    std::thread other([&] {
      while (back.send == nullptr || there.receive == nullptr) {
        if (back.send == nullptr) back.send = b->connect(0, of_a).value();
        if (there.receive == nullptr) there.receive = b->accept(listener_b).value();
      }
    });
    while (there.send == nullptr || back.receive == nullptr) {
      if (there.send == nullptr) there.send = a->connect(0, of_b).value();
      if (back.receive == nullptr) back.receive = a->accept(listener_a).value();
    }
    other.join();
    exchange(there, {1000}, 1);
    exchange(back, {2000}, 2);
    a->close(there.send);
    b->close(there.receive);
    b->close(back.send);
    a->close(back.receive);
    a->close_listener(listener_a);
    b->close_listener(listener_b);
  }
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_P(NetTest, DeliversWhatWasSentBeforeTheSenderCloses) {
  const auto a = make();
  const auto b = make();
  const Pair pair = connect(*a, *b);
  const auto source = pattern(20'000, 3);
  int bytes = 0;
  ASSERT_EQ(wait(send(pair, source), &bytes), kSuccess);
  a->close(pair.send);
  std::vector<std::byte> target(source.size());
  ASSERT_EQ(wait(receive(pair, target), &bytes), kSuccess);
  EXPECT_EQ(target, source);
  b->close(pair.receive);
}

TEST_P(NetTest, ClosesWithRequestsInFlight) {
  const auto a = make();
  const auto b = make();
  const Pair pair = connect(*a, *b);
  const Pair other = connect(*a, *b);
  {
    std::vector<std::vector<std::byte>> sources(kRequestsMax, pattern(1 << 20, 1));
    std::vector<std::vector<std::byte>> targets(kRequestsMax / 2, std::vector<std::byte>(1 << 20));
    for (auto& source : sources) ASSERT_NE(send(pair, source), nullptr);
    for (auto& target : targets) ASSERT_NE(receive(pair, target), nullptr);
    a->close(pair.send);
    b->close(pair.receive);
  }
  exchange(other, {1'000'000}, 5);
  a->close(other.send);
  b->close(other.receive);
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_P(NetTest, ConnectsAgainAfterAllIsClosed) {
  const auto a = make();
  const auto b = make();
  for (unsigned round = 0; round < 10; ++round) {
    const Pair pair = connect(*a, *b);
    exchange(pair, {500, 50'000}, round);
    if (round % 2 == 0) a->close(pair.send);
    b->close(pair.receive);
    if (round % 2 == 1) a->close(pair.send);
  }
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_P(NetTest, ConnectsToAProcessThatHasClosedItsEndsOfTheLink) {
  for (const int passes : {0, 10, 1000}) {
    const auto a = make();
    const auto b = make();
    const Pair first = connect(*a, *b);
    a->close(first.send);
    for (int i = 0; i < passes; ++i) (void)b->accept(0);  // lets it hear of that
    const Pair second = connect(*b, *a);
    exchange(second, {1000}, 1);
    b->close(first.receive);
    b->close(second.send);
    a->close(second.receive);
  }
}

TEST_P(NetTest, ConnectsWhileEarlierConnectionsCloseInAnyOrder) {
  const auto a = make();
  const auto b = make();
  std::mt19937 random(1);
  std::vector<std::pair<Net*, Comm*>> open;
  const auto close_down_to = [&](size_t left) {
    std::shuffle(open.begin(), open.end(), random);
    for (; open.size() > left; open.pop_back()) open.back().first->close(open.back().second);
  };
  for (unsigned round = 0; round < 100; ++round) {
    Net* const from = random() % 2 == 0 ? a.get() : b.get();
    Net* const to = from == a.get() ? b.get() : a.get();
    const Pair pair = connect(*from, *to);
    exchange(pair, {random() % 50'000}, round);
    open.emplace_back(from, pair.send);
    open.emplace_back(to, pair.receive);
    close_down_to(random() % 4);
  }
  close_down_to(0);
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_P(NetTest, ConnectsInSeveralThreadsAtOnce) {
  const auto a = make();
  const auto b = make();
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (unsigned round = 0; round < 20; ++round) {
        Net& from = (thread + round) % 2 == 0 ? *a : *b;
        Net& to = &from == a.get() ? *b : *a;
        const Pair pair = connect(from, to);
        exchange(pair, {100, 40'000}, thread * 100 + round);
        from.close(pair.send);
        to.close(pair.receive);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(NetTest, RefusesMoreConnectionsThanALinkHasRoomFor) {
  const auto a = make();
  const auto b = make();
  Handle handle{};
  const uint32_t listener = b->listen(handle).value();
  std::vector<Pair> pairs;
  for (int i = 0; i < 448; ++i) pairs.push_back(connect(*a, *b, listener, handle));
  Status status;
  Handle again = handle;
  while (status.ok()) status = a->connect(0, again).status();
  EXPECT_NE(status.message().find("at most 448 connections"), std::string::npos)
      << status.message();
  exchange(pairs.back(), {1000}, 1);
  b->close_listener(listener);
  for (const Pair& pair : pairs) a->close(pair.send);
  for (const Pair& pair : pairs) b->close(pair.receive);
}

// A group of receives, each with a tag; the sender sends in another order.
TEST_P(NetTest, ReceivesGroupsByTag) {
  const auto a = make();
  const auto b = make();
  const Pair pair = connect(*a, *b);
  constexpr int kGroups = 20;
  std::vector<std::vector<std::byte>> targets;
  std::vector<std::vector<std::byte>> sources;
  std::vector<WireEnd::Request*> receives, sends;
  const auto size_of = [](int group, int tag) { return 1 + 37 * group + 9000 * tag; };
  for (int group = 0; group < kGroups; ++group) {
    std::array<std::span<std::byte>, kReceivesMax> buffers;
    std::array<int, kReceivesMax> tags{};
    for (int tag = 0; tag < 8; ++tag) {
      targets.push_back(std::vector<std::byte>(80'000));
      buffers[static_cast<size_t>(tag)] = targets.back();
      tags[static_cast<size_t>(tag)] = 5 - tag;
    }
    receives.push_back(pair.receive->end()->receive(buffers, tags.data()));
    ASSERT_NE(receives.back(), nullptr);
  }
  for (int tag = 7; tag >= 0; --tag) {
    for (int group = 0; group < kGroups; ++group) {
      sources.push_back(
          pattern(static_cast<size_t>(size_of(group, tag)), static_cast<unsigned>(group)));
      sends.push_back(send(pair, sources.back(), 5 - tag));
      ASSERT_NE(sends.back(), nullptr);
    }
  }
  for (int group = 0; group < kGroups; ++group) {
    std::array<int, kReceivesMax> sizes{};
    ASSERT_EQ(wait(receives[static_cast<size_t>(group)], sizes.data()), kSuccess);
    for (int tag = 0; tag < 8; ++tag) {
      const int size = size_of(group, tag);
      EXPECT_EQ(sizes[static_cast<size_t>(tag)], size);
      const auto expected = pattern(static_cast<size_t>(size), static_cast<unsigned>(group));
      EXPECT_EQ(std::memcmp(targets[static_cast<size_t>(group * 8 + tag)].data(), expected.data(),
                            expected.size()),
                0)
          << "group " << group << ", tag " << tag;
    }
  }
  for (WireEnd::Request* request : sends) EXPECT_EQ(wait(request, nullptr), kSuccess);
  a->close(pair.send);
  b->close(pair.receive);
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_P(NetTest, ATagWithoutAReceiveBlocksNoOther) {
  const auto a = make();
  const auto b = make();
  const Pair pair = connect(*a, *b);
  const auto source = pattern(300'000, 1);
  std::vector<WireEnd::Request*> waiting;
  for (size_t i = 0; i < kRequestsMax; ++i) waiting.push_back(send(pair, source, 1));
  for (int tag = 2; tag < 20; ++tag) {
    std::vector<std::byte> target(source.size());
    WireEnd::Request* const receives = receive(pair, target, tag);
    EXPECT_EQ(wait(send(pair, source, tag), nullptr), kSuccess);
    EXPECT_EQ(wait(receives, nullptr), kSuccess);
    EXPECT_EQ(target, source);
  }
  for (WireEnd::Request* request : waiting) {
    std::vector<std::byte> target(source.size());
    EXPECT_EQ(wait(receive(pair, target, 1), nullptr), kSuccess);
    EXPECT_EQ(wait(request, nullptr), kSuccess);
    EXPECT_EQ(target, source);
  }
  a->close(pair.send);
  b->close(pair.receive);
}

// The sender begins tags that the receiver has not asked for, and never will.
TEST_P(NetTest, ForgetsTheTagsOfClosedConnections) {
  const auto a = make();
  const auto b = make();
  const Pair other = connect(*a, *b);
  for (unsigned round = 0; round < 60; ++round) {
    const Pair pair = connect(*a, *b);
    const auto source = pattern(round % 2 == 0 ? 100 : 500'000, round);
    for (int tag = 0; tag < 12; ++tag) {
      if (tag == 6 && round % 3 == 0) b->close(pair.receive);
      ASSERT_NE(send(pair, source, tag), nullptr);
    }
    if (round % 3 != 0) b->close(pair.receive);
    a->close(pair.send);
    exchange(other, {1000}, round);
  }
  a->close(other.send);
  b->close(other.receive);
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

// NCCL aborts a communicator and asks no more.
TEST_P(NetTest, AConnectThatNobodyAsksForKeepsNoOtherWaiting) {
  for (int round = 0; round < 4; ++round) {
    const auto a = make();
    const auto b = make();
    Handle handle{};
    b->close_listener(b->listen(handle).value());
    EXPECT_EQ(a->connect(0, handle).value(), nullptr);
    const Pair pair = connect(*b, *a);
    exchange(pair, {1000}, 1);
    b->close(pair.send);
    a->close(pair.receive);
  }
}

TEST_P(NetTest, FailsRequestsWhenTheOtherProcessEnds) {
  const auto a = make();
  auto b = make();
  const Pair pair = connect(*a, *b);
  exchange(pair, {1000}, 1);
  std::vector<std::byte> source(5'000'000);
  WireEnd::Request* request = send(pair, source);
  b.reset();
  int bytes = 0;
  EXPECT_EQ(wait(request, &bytes), kRemoteError);
  EXPECT_EQ(wait(request, &bytes), kRemoteError) << "NCCL 2.22 asks again";
  EXPECT_EQ(pair.send->end()->outcome(), kRemoteError);
  delete pair.receive;  // its process is gone
  a->close(pair.send);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_.front().find("process " + std::to_string(getpid())), std::string::npos)
      << warnings_.front();
}

TEST_P(NetTest, RefusesAHandleOfAnotherPlugin) {
  const auto net = make();
  Handle handle{};
  EXPECT_EQ(net->connect(0, handle).status().code(), Code::invalid_argument);
  handle.fill(std::byte{0x5a});
  EXPECT_EQ(net->connect(0, handle).status().code(), Code::invalid_argument);
}

// The handle names the right process and place, and has another secret.
TEST_P(NetTest, RefusesAStranger) {
  setenv("R2CCL_INIT_TIMEOUT_S", "1", 1);
  const auto a = make();
  const auto b = make();
  unsetenv("R2CCL_INIT_TIMEOUT_S");
  Handle handle{};
  const uint32_t listener = b->listen(handle).value();
  ListenHandle forged = decode_listen_handle(handle).value();
  forged.secret = LockedBytes::random(kSecretBytes);
  Handle of_stranger{};
  encode(forged, of_stranger);
  Status status;
  while (status.ok()) {
    status = a->connect(0, of_stranger).status();
    EXPECT_EQ(b->accept(listener).value(), nullptr);
  }
  EXPECT_EQ(status.code(), Code::timeout) << status.message();
  const Pair pair = connect(*a, *b, listener, handle);
  exchange(pair, {1000}, 1);
  a->close(pair.send);
  b->close(pair.receive);
}

TEST_P(NetTest, TellsThatAListenerIsClosed) {
  const auto a = make();
  const auto b = make();
  Handle handle{};
  b->close_listener(b->listen(handle).value());
  Status status;
  while (status.ok()) status = a->connect(0, handle).status();
  EXPECT_NE(status.message().find("nobody listens"), std::string::npos) << status.message();
}

TEST(LaneName, IsReadFromItsContext) {
  for (const int tag : {0, 1, -1, 70'000, INT32_MAX, INT32_MIN}) {
    for (const uint32_t number : {uint32_t{0}, uint32_t{1}, LaneName::kNumberMax}) {
      const LaneName name{number, tag};
      EXPECT_LE(name.context(), kContextMax);
      EXPECT_EQ(LaneName::of(name.context()), name);
      EXPECT_EQ(LaneName::of(LaneName::context_of_connection(number)), std::nullopt);
    }
  }
  EXPECT_EQ(LaneName::of(ContextId(0)), std::nullopt);
  EXPECT_EQ(LaneName::of(kContextMax), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Transports, NetTest, testing::Values("1", "0"), [](const auto& tested) {
  return std::string(*tested.param == '1' ? "SharedMemory" : "Tcp");
});

}  // namespace
}  // namespace r2ccl::nccl
