// NICs that write into memory by themselves and read it, as with RDMA: the memory they may touch,
// and until when.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "testing/test_pair.h"

namespace r2ccl::sim {
namespace {

constexpr size_t kBytes = 4000;

struct NicsWrite : testing::Test {
  static NetworkOptions options() {
    NetworkOptions all;
    all.nics_write = true;
    return all;
  }
  // The reader posts memory, and no bytes have arrived yet.
  void ask(std::vector<std::byte>& into) {
    const iovec slice = slice_of(into);
    ASSERT_EQ(pair.server->receive({&slice, 1}).kind, IoKind::blocked);
  }
  void send() { ASSERT_EQ(pair.client->write({&sent_slice, 1}).bytes, kBytes); }
  static bool untouched(const std::vector<std::byte>& memory) {
    return std::ranges::count(memory, std::byte{0}) == static_cast<ptrdiff_t>(memory.size());
  }

  TestPair pair{options()};
  std::vector<std::byte> sent = pattern_bytes(kBytes);
  iovec sent_slice = slice_of(sent);
  std::vector<std::byte> first = std::vector<std::byte>(kBytes);
  std::vector<std::byte> second = std::vector<std::byte>(kBytes);
};

TEST_F(NicsWrite, ArrivingBytesLandWithoutTheProcessAndAreReturnedByItsRead) {
  pair.connect();
  ask(first);
  send();
  pair.fabric.run_for(kSecond);
  EXPECT_EQ(first, sent);
  const iovec slice = slice_of(second);
  EXPECT_EQ(pair.server->receive({&slice, 1}).bytes, kBytes);
  EXPECT_EQ(second, sent) << "in the place that was given last";
}

TEST_F(NicsWrite, SentBytesAreReadWhereTheyAreUntilTheyAreReleased) {
  for (const bool released : {false, true}) {
    TestPair own{options()};
    own.connect();
    std::vector<std::byte> source = sent;
    const iovec slice = slice_of(source);
    EXPECT_TRUE(own.client->sends_in_place(kBytes));
    ASSERT_EQ(own.client->send({&slice, 1}).bytes, kBytes);
    if (released) own.client->release();
    std::ranges::fill(source, std::byte{0});
    own.fabric.run_for(kSecond);
    const iovec into = slice_of(first);
    ASSERT_EQ(own.server->read({&into, 1}).bytes, kBytes);
    EXPECT_EQ(first, released ? sent : source);
  }
}

TEST_F(NicsWrite, ASenderThatEndsReleasesItsBytes) {
  pair.connect();
  std::vector<std::byte> source = sent;
  const iovec slice = slice_of(source);
  ASSERT_EQ(pair.client->send({&slice, 1}).bytes, kBytes);
  pair.fabric.run_for(kSecond);
  pair.client.reset();
  std::ranges::fill(source, std::byte{0});
  const iovec into = slice_of(first);
  ASSERT_EQ(pair.server->read({&into, 1}).bytes, kBytes);
  EXPECT_EQ(first, sent);
}

TEST_F(NicsWrite, LandsBehindTheBytesThatWereReturned) {
  pair.connect();
  const iovec half{sent.data(), kBytes / 2};
  ASSERT_EQ(pair.client->write({&half, 1}).bytes, kBytes / 2);
  pair.fabric.run_for(kSecond);
  const iovec slice = slice_of(first);
  ASSERT_EQ(pair.server->receive({&slice, 1}).bytes, kBytes / 2);
  const iovec rest{sent.data() + kBytes / 2, kBytes / 2};
  ASSERT_EQ(pair.client->write({&rest, 1}).bytes, kBytes / 2);
  pair.fabric.run_for(kSecond);
  EXPECT_EQ(first, sent);
}

TEST_F(NicsWrite, NothingLandsAfterAFence) {
  pair.connect();
  ask(first);
  send();
  pair.server->fence();
  pair.fabric.run_for(kSecond);
  EXPECT_TRUE(untouched(first));
}

TEST_F(NicsWrite, NothingLandsInMemoryThatWasOnlyRead) {
  pair.connect();
  const iovec slice = slice_of(first);
  ASSERT_EQ(pair.server->read({&slice, 1}).kind, IoKind::blocked);
  send();
  pair.fabric.run_for(kSecond);
  EXPECT_TRUE(untouched(first));
}

// The sender knows that the connection has failed, and its earlier bytes still arrive.
TEST_F(NicsWrite, BytesInFlightLandAfterTheFailureUntilTheConnectionIsDestroyed) {
  for (const bool gone : {false, true}) {
    pair.connect();
    std::ranges::fill(first, std::byte{0});
    ask(first);
    send();
    pair.fabric.reset_flow(pair.flow_id);
    if (gone) pair.server.reset();
    pair.fabric.run_for(kSecond);
    EXPECT_EQ(untouched(first), gone);
  }
}

}  // namespace
}  // namespace r2ccl::sim
