#include "sim/fabric/fabric.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>
#include <string>

#include "testing/test_pair.h"

namespace r2ccl::sim {
namespace {

TEST(Fabric, AConnectTakesOneRoundTrip) {
  TestPair pair;
  auto client = pair.start_connect();
  EXPECT_EQ(client->connect_state(), ConnectState::pending);
  pair.fabric.run_for(2 * TestPair::kLatency - 1);
  EXPECT_EQ(client->connect_state(), ConnectState::pending);
  pair.fabric.run_for(1);
  EXPECT_EQ(client->connect_state(), ConnectState::established);
  EXPECT_EQ(client->remote(), pair.listener->local());
}

TEST(Fabric, AConnectToAPortWithoutAListenerIsRefused) {
  TestPair pair;
  Endpoint nobody = pair.listener->local();
  nobody.port = 1;
  auto client = pair.a.connect(nobody, {}).value();
  pair.fabric.run_for(2 * TestPair::kLatency);
  EXPECT_EQ(client->connect_state(), ConnectState::failed);
  EXPECT_EQ(client->connect_error(), ECONNREFUSED);
}

TEST(Fabric, AConnectToAnUnusedAddressStaysPending) {
  TestPair pair;
  Endpoint nobody = pair.listener->local();
  nobody.address.bytes[3] = 99;
  auto client = pair.a.connect(nobody, {}).value();
  pair.fabric.run_for(60 * kSecond);
  EXPECT_EQ(client->connect_state(), ConnectState::pending);
}

TEST(Fabric, AConnectByANicWithoutACarrierFailsAtOnce) {
  TestPair pair;
  pair.fabric.pull(pair.nic_a);
  const auto bound = pair.start_connect({.device = "nic0", .source = {}});
  EXPECT_EQ(bound->connect_state(), ConnectState::failed);
  EXPECT_EQ(bound->connect_error(), ENETDOWN);
  EXPECT_EQ(pair.start_connect()->connect_state(), ConnectState::pending) << "bound to no NIC";
}

TEST(Fabric, NicsOfARailHaveAddressesOfTheirOwnInOneSubnet) {
  VirtualClock clock;
  Fabric fabric(1, clock);
  std::set<std::array<uint8_t, 16>> seen;
  Address first;
  for (int machine = 0; machine < 600; ++machine) {
    SimHost& host = fabric.add_host("h" + std::to_string(machine));
    for (uint32_t rail = 0; rail < 2; ++rail) {
      const SimNic& nic =
          fabric.add_nic(host, {.name = "nic" + std::to_string(rail), .rail = rail});
      const Address& address = nic.addresses.front();
      EXPECT_TRUE(seen.insert(address.bytes).second);
      if (seen.size() == 1) first = address;
      EXPECT_EQ(same_subnet(first, address), rail == 0);
    }
  }
}

TEST(Fabric, RailsDoNotReachEachOther) {
  TestPair pair;
  pair.fabric.add_nic(pair.a, {.name = "nic1", .rail = 1});
  EXPECT_TRUE(pair.a.connect(pair.listener->local(), {}).ok());
  auto wrong_rail =
      pair.a.connect(pair.listener->local(), {.device = "nic1", .source = {}}).value();
  pair.fabric.run_for(10 * kSecond);
  EXPECT_EQ(wrong_rail->connect_state(), ConnectState::pending);
}

TEST(Fabric, BytesArriveInOrderAndWhole) {
  TestPair pair;
  pair.connect();
  const auto bytes = pattern_bytes(3'000'000);
  EXPECT_EQ(pair.transfer(*pair.client, *pair.server, bytes), bytes);
  const auto back = pattern_bytes(100'001, 2);
  EXPECT_EQ(pair.transfer(*pair.server, *pair.client, back), back);
}

TEST(Fabric, AStreamTakesItsBytesOverTheRatePlusTheLatency) {
  TestPair pair;
  pair.connect();
  const TimeNs start = pair.clock.now();
  pair.transfer(*pair.client, *pair.server, pattern_bytes(1'000'000));
  // 1 MB / 31.25 MB/s = 32 ms, plus 50 us on the wire, a round trip in which the initial window is
  // used up, and the rounding of 62 segments to nanoseconds.
  const TimeNs expected = 32 * kMillisecond + 3 * TestPair::kLatency;
  EXPECT_NEAR(static_cast<double>(pair.clock.now() - start), static_cast<double>(expected), 100);
}

TEST(Fabric, ASlowNicPassesBytesAtItsOwnRate) {
  TestPair pair;
  pair.connect();
  pair.fabric.slow(pair.nic_b, TestPair::kRate / 10);
  const TimeNs start = pair.clock.now();
  pair.transfer(*pair.client, *pair.server, pattern_bytes(1'000'000));
  // The receiving NIC is the bottleneck: 320 ms, plus the latency.
  EXPECT_NEAR(static_cast<double>(pair.clock.now() - start), 320e6 + 50e3, 2e6);
}

TEST(Fabric, SendersToOneNicShareItEvenly) {
  VirtualClock clock;
  NetworkOptions options;
  options.stream.initial_window_bytes = options.stream.send_buffer_bytes = 128 * 1024;
  Fabric fabric(1, clock, options);
  SimHost& sink = fabric.add_host("sink");
  fabric.add_nic(sink, {.name = "nic0"});
  auto listener = sink.listen({sink.address_of("nic0"), 7000}, "").value();
  std::vector<std::unique_ptr<Connection>> clients;
  for (int i = 0; i < 4; ++i) {
    SimHost& host = fabric.add_host("source");
    fabric.add_nic(host, {.name = "nic0"});
    clients.push_back(host.connect(listener->local(), {}).value());
  }
  fabric.run_for(kMillisecond);
  std::vector<std::unique_ptr<Connection>> servers;
  while (auto server = listener->accept()) servers.push_back(std::move(server));
  ASSERT_EQ(servers.size(), 4u);

  auto bytes = pattern_bytes(1 << 20);
  std::vector<std::byte> buffer(1 << 20);
  std::vector<uint64_t> got(4);
  const TimeNs start = clock.now();
  while (clock.now() < start + 100 * kMillisecond) {
    const iovec out = slice_of(bytes);
    for (auto& client : clients) (void)client->write({&out, 1});
    const iovec in = slice_of(buffer);
    for (size_t i = 0; i < 4; ++i) got[i] += servers[i]->read({&in, 1}).bytes;
    fabric.step(start + 100 * kMillisecond);
  }
  // 31.25 MB/s for 100 ms are 3.125 MB, and a quarter of that is 781 KB for each sender.
  for (const uint64_t share : got) EXPECT_NEAR(static_cast<double>(share), 781'250, 40'000);
}

TEST(Fabric, ANicIsFullDuplex) {
  TestPair pair;
  pair.connect();
  auto bytes = pattern_bytes(250'000);
  const iovec slice = slice_of(bytes);
  ASSERT_EQ(pair.client->write({&slice, 1}).bytes, bytes.size());
  ASSERT_EQ(pair.server->write({&slice, 1}).bytes, bytes.size());
  // 250 KB at 31.25 MB/s are 8 ms each way, at the same time.
  pair.fabric.run_for(8 * kMillisecond + 4 * TestPair::kLatency);
  EXPECT_EQ(pair.fabric.flows().back().delivered_from, bytes.size());
  EXPECT_EQ(pair.fabric.flows().back().delivered_to, bytes.size());
}

TEST(Fabric, AReaderThatDoesNotReadStallsTheSender) {
  TestPair pair;
  pair.connect();
  auto bytes = pattern_bytes(4 << 20);
  const iovec slice = slice_of(bytes);
  size_t sent = 0;
  const TimeNs deadline = pair.clock.now() + kSecond;
  do {
    const iovec rest{bytes.data() + sent, bytes.size() - sent};
    sent += pair.client->write({&rest, 1}).bytes;
  } while (pair.fabric.step(deadline));
  const StreamLimits limits;
  EXPECT_EQ(sent, limits.receive_buffer_bytes + limits.send_buffer_bytes);
  EXPECT_EQ(pair.client->write({&slice, 1}).kind, IoKind::blocked);

  std::vector<std::byte> got;
  std::vector<std::byte> buffer(100'000);
  while (got.size() < sent) {
    const iovec in = slice_of(buffer);
    const IoResult result = pair.server->read({&in, 1});
    got.insert(got.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(result.bytes));
    if (result.bytes == 0) {
      ASSERT_TRUE(pair.fabric.step(deadline + kSecond));
    }
  }
  bytes.resize(sent);
  EXPECT_EQ(got, bytes);
}

TEST(Fabric, AWriterWithALowWaterMarkKeepsLittleUnsent) {
  TestPair pair;
  pair.connect({.device = "", .source = {}, .unsent_low_water = 32 * 1024});
  ASSERT_TRUE(pair.a.poller().add(pair.client->poll_id(), 7, true).ok());
  auto bytes = pattern_bytes(1 << 20);
  const iovec slice = slice_of(bytes);
  std::array<PollEvent, 4> events;
  uint64_t largest = 0;
  int writes = 0;
  const TimeNs deadline = pair.clock.now() + 100 * kMillisecond;
  do {
    if (pair.a.poller().wait(events, 0) == 0) continue;
    EXPECT_TRUE(events[0].writable);
    EXPECT_EQ(pair.client->write({&slice, 1}).kind, IoKind::progressed);
    largest = std::max(largest, pair.client->info().unsent_bytes);
    ++writes;
  } while (pair.fabric.step(deadline));
  EXPECT_LE(largest, 32u * 1024 + StreamLimits{}.segment_bytes);
  EXPECT_GT(writes, 10);
  pair.a.poller().remove(pair.client->poll_id());
}

TEST(Fabric, AClosedConnectionFailsAtThePeerAfterItsBytes) {
  TestPair pair;
  pair.connect();
  auto bytes = pattern_bytes(1000);
  const iovec slice = slice_of(bytes);
  ASSERT_EQ(pair.client->write({&slice, 1}).bytes, 1000u);
  pair.fabric.run_for(10 * kMillisecond);
  pair.client.reset();
  pair.fabric.run_for(10 * kMillisecond);
  std::vector<std::byte> buffer(2000);
  const iovec in = slice_of(buffer);
  EXPECT_EQ(pair.server->read({&in, 1}).bytes, 1000u);
  const IoResult end = pair.server->read({&in, 1});
  EXPECT_EQ(end.kind, IoKind::failed);
  EXPECT_EQ(end.error, ECONNRESET);
}

TEST(Fabric, ConnectionsThatAreOverAreForgotten) {
  TestPair pair;
  for (int i = 0; i < 10; ++i) {
    pair.connect();
    pair.client.reset();
    pair.server.reset();
    pair.fabric.run_for(kMillisecond);
  }
  EXPECT_TRUE(pair.fabric.flows().empty());
}

TEST(Fabric, ProcessesOfOneHostMeetOnTheLoopback) {
  VirtualClock clock;
  Fabric fabric(1, clock);
  SimHost& one = fabric.add_host("a");
  SimHost& other = fabric.add_process(one, "a.control");
  auto listener = one.listen({one.address_of("lo"), 0}, "").value();
  auto client = other.connect(listener->local(), {}).value();
  fabric.run_for(kMillisecond);
  EXPECT_EQ(client->connect_state(), ConnectState::established);
  EXPECT_NE(listener->accept(), nullptr);
}

TEST(Fabric, ListeningTwiceOnOnePortIsRefused) {
  TestPair pair;
  EXPECT_FALSE(pair.b.listen(pair.listener->local(), "nic0").ok());
}

TEST(Fabric, AWaitPassesTimeWhenToldTo) {
  TestPair pair;
  pair.fabric.let_waits_pass_time();
  auto client = pair.start_connect();
  ASSERT_TRUE(pair.a.poller().add(client->poll_id(), 5, true).ok());
  std::array<PollEvent, 4> events;
  ASSERT_EQ(pair.a.poller().wait(events, kSecond), 1u);
  EXPECT_EQ(events[0].token, 5u);
  EXPECT_TRUE(events[0].writable);
  pair.a.poller().modify(client->poll_id(), 5, false);
  const TimeNs start = pair.clock.now();
  EXPECT_EQ(pair.a.poller().wait(events, kSecond), 0u);
  EXPECT_EQ(pair.clock.now() - start, kSecond);
  pair.a.poller().remove(client->poll_id());
}

}  // namespace
}  // namespace r2ccl::sim
