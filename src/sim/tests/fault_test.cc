// The effects of each fault on both ends of a connection.
#include <gtest/gtest.h>

#include <cerrno>

#include "sim/fabric/fabric.h"
#include "testing/test_pair.h"

namespace r2ccl::sim {
namespace {

constexpr ConnectOptions kAnyRoute{.device = "", .source = {}, .unsent_low_water = 0};

Nic nic_named(SimHost& host, const std::string& name) {
  const std::vector<Nic> nics = host.nics().value();
  for (const Nic& nic : nics) {
    if (nic.name == name) return nic;
  }
  return {};
}

TEST(Fault, ANicThatIsDownIsSeenByItsHostAndRefusesConnects) {
  TestPair pair;
  ASSERT_TRUE(pair.a.drain_nic_events());  // the events of adding the NICs
  std::array<PollEvent, 4> events;
  ASSERT_TRUE(pair.a.poller().add(pair.a.nic_events_poll_id(), 3, false).ok());
  EXPECT_EQ(pair.a.poller().wait(events, 0), 0u);
  pair.fabric.down(pair.nic_a);
  EXPECT_EQ(pair.a.poller().wait(events, 0), 1u);
  EXPECT_TRUE(pair.a.drain_nic_events());
  EXPECT_FALSE(nic_named(pair.a, "nic0").up);
  EXPECT_FALSE(nic_named(pair.a, "nic0").usable);
  auto refused = pair.a.connect(pair.listener->local(), kAnyRoute);
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused.value()->connect_state(), ConnectState::failed);
  EXPECT_EQ(refused.value()->connect_error(), ENETUNREACH);
  EXPECT_TRUE(nic_named(pair.b, "nic0").carrier);
  pair.a.poller().remove(pair.a.nic_events_poll_id());
}

TEST(Fault, APulledNicLosesCarrierAndItsConnectsStayPending) {
  TestPair pair;
  pair.fabric.pull(pair.nic_a);
  EXPECT_TRUE(nic_named(pair.a, "nic0").up);
  EXPECT_FALSE(nic_named(pair.a, "nic0").carrier);
  auto client = pair.start_connect();
  pair.fabric.run_for(60 * kSecond);
  EXPECT_EQ(client->connect_state(), ConnectState::pending);
}

TEST(Fault, AHoleIsSilentAndTheStreamResumesAtARetransmission) {
  TestPair pair;
  pair.connect();
  pair.fabric.hole(pair.nic_b);
  const auto bytes = pattern_bytes(300'000);
  const TimeNs start = pair.clock.now();
  pair.fabric.at(start + kSecond, [&] { pair.fabric.fix(pair.nic_b); });
  EXPECT_EQ(pair.transfer(*pair.client, *pair.server, bytes), bytes);
  // Retransmissions come after 0.2, 0.6 and 1.4 s: the last one 0.4 s after the repair.
  const TimeNs took = pair.clock.now() - start;
  EXPECT_GE(took, 1400 * kMillisecond);
  EXPECT_LT(took, 1430 * kMillisecond);
  EXPECT_GE(pair.client->info().packets.retransmitted, 3u);
}

TEST(Fault, AnIdleConnectionTellsOfAHoleWithinTwoKeepAlives) {
  TestPair pair;
  pair.connect();
  pair.fabric.run_for(60 * kSecond);
  EXPECT_EQ(pair.client->info().unanswered_ns, 0);
  EXPECT_EQ(pair.server->info().unanswered_ns, 0);
  pair.fabric.hole(pair.nic_b);
  pair.fabric.run_for(60 * kSecond);
  for (Connection* end : {pair.client.get(), pair.server.get()}) {
    EXPECT_GE(end->info().unanswered_ns, 60 * kSecond);
    EXPECT_LT(end->info().unanswered_ns, 60 * kSecond + 2 * kKeepAlive);
  }
  pair.fabric.fix(pair.nic_b);
  pair.fabric.run_for(2 * kKeepAlive);
  EXPECT_EQ(pair.client->info().unanswered_ns, 0);
}

TEST(Fault, BytesInABlackHoleAreUnansweredFromTheLastAnswerOn) {
  TestPair pair;
  pair.connect();
  pair.fabric.hole(pair.nic_b);
  (void)pair.transfer(*pair.client, *pair.server, pattern_bytes(1), 300 * kMillisecond);
  EXPECT_GE(pair.client->info().unanswered_ns, 300 * kMillisecond);
  pair.fabric.fix(pair.nic_b);
  pair.fabric.run_for(kSecond);
  EXPECT_EQ(pair.client->info().unanswered_ns, 0);
}

TEST(Fault, AConnectInAHoleStaysPendingAndSucceedsAfterTheRepair) {
  TestPair pair;
  pair.fabric.hole(pair.nic_b);
  auto client = pair.start_connect();
  pair.fabric.run_for(2 * kSecond);
  EXPECT_EQ(client->connect_state(), ConnectState::pending);
  pair.fabric.fix(pair.nic_b);
  // Connection requests go out after 1, 3, 7 s.
  pair.fabric.run_for(kSecond + kMillisecond);
  EXPECT_EQ(client->connect_state(), ConnectState::established);
}

// The acknowledgements of b's kernel are lost: a's stream arrives up to one window and stalls.
TEST(Fault, AStreamWhoseReverseDirectionIsHoledDeliversOneWindowAndStalls) {
  for (const bool hole_at_sender : {false, true}) {
    TestPair pair;
    pair.connect();
    if (hole_at_sender) {
      pair.fabric.hole_rx(pair.nic_a);
    } else {
      pair.fabric.hole_tx(pair.nic_b);
    }
    const auto bytes = pattern_bytes(1'000'000);
    const auto got = pair.transfer(*pair.client, *pair.server, bytes, 5 * kSecond);
    EXPECT_EQ(got.size(), StreamLimits{}.initial_window_bytes);
    pair.fabric.fix(pair.nic_a);
    pair.fabric.fix(pair.nic_b);
    const std::vector<std::byte> none(1);
    EXPECT_FALSE(pair.transfer(*pair.client, *pair.server, none).empty());
  }
}

TEST(Fault, AStreamIntoAHoleDeliversNothing) {
  TestPair pair;
  pair.connect();
  pair.fabric.hole_tx(pair.nic_a);
  EXPECT_TRUE(
      pair.transfer(*pair.client, *pair.server, pattern_bytes(100'000), 5 * kSecond).empty());
  EXPECT_EQ(pair.last_read.kind, IoKind::blocked);
  EXPECT_EQ(pair.client->connect_state(), ConnectState::established);
}

TEST(Fault, LossDelayAndJitterChangeNoByte) {
  TestPair pair;
  pair.connect();
  pair.fabric.lose(pair.nic_a, 5'000);  // half a percent of frames, 5 % of segments
  pair.fabric.delay(pair.nic_b, kMillisecond, kMillisecond);
  const auto bytes = pattern_bytes(2'000'000);
  EXPECT_EQ(pair.transfer(*pair.client, *pair.server, bytes, 600 * kSecond), bytes);
  EXPECT_GT(pair.client->info().packets.retransmitted, 0u);
}

TEST(Fault, AnMtuHoleSwallowsFullFramesOnly) {
  TestPair pair;
  pair.connect();
  pair.fabric.mtu_hole(pair.nic_b, 1000);
  const auto small = pattern_bytes(500);
  EXPECT_EQ(pair.transfer(*pair.client, *pair.server, small), small);
  EXPECT_TRUE(pair.transfer(*pair.client, *pair.server, pattern_bytes(5000), 5 * kSecond).empty());
}

TEST(Fault, AResetIsSeenByBothEnds) {
  TestPair pair;
  pair.connect();
  pair.fabric.reset_flow(pair.flow_id);
  std::vector<std::byte> buffer(10);
  const iovec slice = slice_of(buffer);
  EXPECT_EQ(pair.client->write({&slice, 1}).kind, IoKind::failed);
  EXPECT_EQ(pair.server->read({&slice, 1}).error, ECONNRESET);
}

TEST(Fault, AConnectionCanBeCutAtEveryByte) {
  const auto bytes = pattern_bytes(5000);
  for (uint64_t cut = 0; cut < bytes.size(); cut += 7) {
    for (const CutKind kind : {CutKind::reset, CutKind::silent}) {
      TestPair pair;
      pair.connect();
      pair.fabric.cut_flow(pair.flow_id, 0, cut, kind);
      const auto got = pair.transfer(*pair.client, *pair.server, bytes, kSecond);
      ASSERT_EQ(got.size(), cut);
      ASSERT_TRUE(std::equal(got.begin(), got.end(), bytes.begin()));
      ASSERT_EQ(pair.last_read.kind, kind == CutKind::reset ? IoKind::failed : IoKind::blocked);
    }
  }
}

TEST(Fault, AKilledProcessEndsItsStreamsAndRefusesConnects) {
  TestPair pair;
  pair.connect();
  auto bytes = pattern_bytes(200'000);
  const iovec slice = slice_of(bytes);
  ASSERT_EQ(pair.server->write({&slice, 1}).bytes, bytes.size());
  pair.b.kill();
  std::vector<std::byte> got = pair.transfer(*pair.server, *pair.client, bytes);
  EXPECT_EQ(got, bytes);  // its kernel still sends the written bytes
  EXPECT_EQ(pair.server->write({&slice, 1}).error, EBADF);
  pair.fabric.run_for(kMillisecond);
  std::vector<std::byte> buffer(10);
  const iovec in = slice_of(buffer);
  EXPECT_EQ(pair.client->read({&in, 1}).kind, IoKind::closed);
  // The peer answers the survivor's bytes by a reset.
  EXPECT_EQ(pair.client->write({&in, 1}).kind, IoKind::progressed);
  pair.fabric.run_for(kMillisecond);
  EXPECT_EQ(pair.client->write({&in, 1}).error, ECONNRESET);
  auto late = pair.start_connect();
  pair.fabric.run_for(kMillisecond);
  EXPECT_EQ(late->connect_error(), ECONNREFUSED);
}

// The kernel of a stopped process still accepts connections and, up to the window, bytes.
TEST(Fault, AStoppedProcessStillHasAKernel) {
  TestPair pair;
  auto client = pair.start_connect();
  pair.fabric.run_for(kMillisecond);
  ASSERT_EQ(client->connect_state(), ConnectState::established);
  auto bytes = pattern_bytes(100'000);
  const iovec slice = slice_of(bytes);
  ASSERT_EQ(client->write({&slice, 1}).bytes, bytes.size());
  pair.fabric.run_for(kSecond);
  EXPECT_EQ(pair.fabric.flows().back().delivered_from, bytes.size());
}

TEST(Fault, APartitionSilencesConnectionsUntilItHeals) {
  TestPair pair;
  pair.connect();
  SimHost* const one[] = {&pair.a};
  pair.fabric.partition(one);
  const auto bytes = pattern_bytes(1000);
  EXPECT_TRUE(pair.transfer(*pair.client, *pair.server, bytes, kSecond).empty());
  pair.fabric.heal_partition();
  pair.fabric.run_for(kSecond);
  EXPECT_EQ(pair.fabric.flows().back().delivered_from, bytes.size());
}

TEST(Fault, TheNthOperationFailsAndNoOther) {
  TestPair pair;
  pair.connect();
  std::vector<std::byte> buffer(10);
  const iovec slice = slice_of(buffer);
  pair.a.fail_operation(2, EIO);
  EXPECT_EQ(pair.client->write({&slice, 1}).kind, IoKind::progressed);
  const IoResult second = pair.client->write({&slice, 1});
  EXPECT_EQ(second.kind, IoKind::failed);
  EXPECT_EQ(second.error, EIO);
  pair.a.fail_operation(1, EMFILE);
  EXPECT_FALSE(pair.a.connect(pair.listener->local(), kAnyRoute).ok());
  EXPECT_TRUE(pair.a.connect(pair.listener->local(), kAnyRoute).ok());
}

TEST(Fault, ARefusedCallLeavesTheConnectionAlive) {
  for (const int error : {EFAULT, ENOMEM, ENOBUFS}) {
    TestPair pair;
    pair.connect();
    std::vector<std::byte> buffer(10);
    const iovec slice = slice_of(buffer);
    pair.a.fail_operation(1, error);
    const IoResult first = pair.client->write({&slice, 1});
    EXPECT_EQ(first.kind, IoKind::refused);
    EXPECT_EQ(first.error, error);
    EXPECT_EQ(pair.client->write({&slice, 1}).kind, IoKind::progressed);
  }
}

TEST(Fault, AFailedAcceptLeavesTheConnectionInTheBacklog) {
  TestPair pair;
  auto client = pair.start_connect();
  pair.fabric.run_for(kMillisecond);
  pair.b.fail_operation(1, EMFILE);
  EXPECT_EQ(pair.listener->accept(), nullptr);
  EXPECT_EQ(pair.listener->accept_error(), EMFILE);
  EXPECT_NE(pair.listener->accept(), nullptr);
  EXPECT_EQ(pair.listener->accept_error(), 0);
}

TEST(Fault, APeerWhoseKernelDoesNotAnswerTimesOutLikeTcp) {
  TestPair pair;
  pair.connect();
  pair.fabric.hole(pair.nic_b);
  std::vector<std::byte> buffer(10);
  const iovec slice = slice_of(buffer);
  ASSERT_EQ(pair.client->write({&slice, 1}).bytes, 10u);
  pair.fabric.run_for(900 * kSecond);  // 15 retransmissions take 924.6 s
  EXPECT_EQ(pair.client->read({&slice, 1}).kind, IoKind::blocked);
  pair.fabric.run_for(30 * kSecond);
  EXPECT_EQ(pair.client->read({&slice, 1}).error, ETIMEDOUT);
}

}  // namespace
}  // namespace r2ccl::sim
