#include "runtime/connection/acceptor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>

#include "base/limits.h"
#include "sim/fabric/fabric.h"

namespace r2ccl {

using namespace sim;
namespace {

constexpr NicId kNic{2};
constexpr ConnectionIdentity kIdentity{
    ConnectionKind::data, Rank(0), Rank(1), PathId(3), NicId(5), kNic};

RunIdentity run_with(uint8_t key) {
  RunIdentity run;
  run.key = LockedBytes::copy_of(std::vector<std::byte>(kSecretBytes, std::byte{key}));
  return run;
}

std::array<std::byte, kNonceBytes> nonce(uint32_t seed) {
  std::array<std::byte, kNonceBytes> bytes;
  std::mt19937 random(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// A server with an acceptor on one host, and clients on another.
class AcceptorTest : public testing::Test {
 protected:
  AcceptorTest() {
    acceptor_.emplace(reactor_, server_host_, clock_, callbacks());
    EXPECT_TRUE(acceptor_->begin().ok());
    endpoint_ = acceptor_->listen(server_host_.address_of("nic0"), "nic0", kNic).value();
  }

  Acceptor::Callbacks callbacks() {
    Acceptor::Callbacks callbacks;
    const auto policy = [](const ConnectionIdentity& identity,
                           Incarnation) -> Result<AcceptDecision> {
      if (identity.path != kIdentity.path) return Status(Code::remote, "no such path here");
      return AcceptDecision{Incarnation(6), Incarnation(), {}};
    };
    callbacks.handshake = [this, policy](NicId came_by) {
      return make_acceptor(run_, came_by, policy, nonce(nonces_++));
    };
    callbacks.established = [this](EstablishedConnection connection) {
      established_.push_back(std::move(connection));
    };
    return callbacks;
  }
  void run_for(TimeNs duration) {
    for (const TimeNs end = clock_.now() + duration; clock_.now() < end;) {
      fabric_.run_for(100 * kMicrosecond);
      reactor_.poll(0);
      acceptor_->progress(clock_.now());
    }
  }
  std::unique_ptr<Connection> connect() { return connect_from(client_host_); }
  std::unique_ptr<Connection> connect_from(SimHost& host) {
    return host.connect(endpoint_, ConnectOptions()).value();
  }
  static void say(Connection& connection, std::vector<std::byte> bytes) {
    const iovec slice{bytes.data(), bytes.size()};
    EXPECT_EQ(connection.write({&slice, 1}).kind, IoKind::progressed);
  }
  static bool closed(Connection& connection) {
    std::array<std::byte, 1000> buffer;
    const iovec slice{buffer.data(), buffer.size()};
    while (true) {
      const IoKind kind = connection.read({&slice, 1}).kind;
      if (kind != IoKind::progressed) return kind != IoKind::blocked;
    }
  }
  static size_t held(const std::vector<std::unique_ptr<Connection>>& flooding) {
    return static_cast<size_t>(
        std::count_if(flooding.begin(), flooding.end(), [](const auto& each) {
          return each->connect_state() == ConnectState::established && !closed(*each);
        }));
  }
  // Opens connections that send nothing, one soon after the other.
  std::vector<std::unique_ptr<Connection>> flood(SimHost& host, int count) {
    std::vector<std::unique_ptr<Connection>> flooding;
    for (int i = 0; i < count; ++i) {
      flooding.push_back(connect_from(host));
      if (i % 50 == 49) run_for(kMillisecond);
    }
    run_for(5 * kMillisecond);
    return flooding;
  }
  // Performs an honest peer's handshake, for at most `limit`.
  HandshakeIo::Progress shake(HandshakeIo& client, TimeNs limit = 100 * kMillisecond) {
    auto progress = HandshakeIo::Progress::running;
    for (const TimeNs end = clock_.now() + limit; clock_.now() < end;) {
      run_for(100 * kMicrosecond);
      progress = client.pump();
      if (progress != HandshakeIo::Progress::running) break;
    }
    run_for(kMillisecond);
    return progress;
  }
  HandshakeIo honest_client(uint8_t secret = 1, ConnectionIdentity identity = kIdentity) {
    HandshakeIo client(connect(),
                       make_initiator(run_with(secret), identity, Incarnation(4), nonce(99), {}));
    run_for(kMillisecond);
    return client;
  }
  bool lets_an_honest_client_in() {
    const size_t before = established_.size();
    HandshakeIo client = honest_client();
    return shake(client) == HandshakeIo::Progress::done && established_.size() == before + 1;
  }

  VirtualClock clock_;
  Fabric fabric_{1, clock_};
  SimHost& server_host_ = fabric_.add_host("server");
  SimHost& client_host_ = fabric_.add_host("client");
  SimNic& server_nic_ = fabric_.add_nic(server_host_, {.name = "nic0"});
  SimNic& client_nic_ = fabric_.add_nic(client_host_, {.name = "nic0"});
  RunIdentity run_ = run_with(1);
  uint32_t nonces_ = 1;
  Reactor reactor_{server_host_.poller()};
  std::vector<EstablishedConnection> established_;
  Endpoint endpoint_;
  std::optional<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, LetsAnHonestPeerInAndHandsOverItsConnection) {
  HandshakeIo client = honest_client();
  ASSERT_EQ(shake(client), HandshakeIo::Progress::done);
  ASSERT_EQ(established_.size(), 1u);
  EXPECT_EQ(established_[0].session.identity, kIdentity);
  EXPECT_EQ(established_[0].session.incarnation, Incarnation(7));
  EXPECT_EQ(acceptor_->refused(), 0u);
  EXPECT_EQ(acceptor_->next_timeout(), kNever);
  // The connection outlives the acceptor's own limits.
  EstablishedConnection mine = client.take();
  EXPECT_EQ(mine.session.send_key, established_[0].session.receive_key);
  run_for(2 * limits::kHandshakeAgeMax);
  EXPECT_FALSE(closed(*mine.connection));
}

TEST_F(AcceptorTest, LosesNoByteThatFollowsTheHandshakeAtOnce) {
  HandshakeIo client = honest_client();
  while (client.pump() == HandshakeIo::Progress::running) {
    fabric_.run_for(100 * kMicrosecond);
    if (established_.empty()) reactor_.poll(0);
    acceptor_->progress(clock_.now());
  }
  // FINAL is on its way; these bytes come right behind it.
  EstablishedConnection mine = client.take();
  say(*mine.connection, std::vector<std::byte>(10, std::byte{5}));
  fabric_.run_for(kMillisecond);
  run_for(kMillisecond);
  ASSERT_EQ(established_.size(), 1u);
  std::vector<std::byte> got = established_[0].leftover;
  std::array<std::byte, 100> buffer;
  const iovec slice{buffer.data(), buffer.size()};
  const IoResult read = established_[0].connection->read({&slice, 1});
  got.insert(got.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(read.bytes));
  EXPECT_EQ(got, std::vector<std::byte>(10, std::byte{5}));
}

TEST_F(AcceptorTest, RefusesGarbageSoon) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    auto stranger = connect();
    run_for(kMillisecond);
    std::vector<std::byte> bytes(2000);
    std::mt19937 random(seed);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    say(*stranger, bytes);
    run_for(5 * kMillisecond);
    EXPECT_EQ(acceptor_->refused(), seed + 1);
    run_for(200 * kMillisecond);  // for the refusal to arrive
    EXPECT_TRUE(closed(*stranger)) << seed;
  }
  EXPECT_TRUE(established_.empty());
  EXPECT_TRUE(lets_an_honest_client_in());
}

TEST_F(AcceptorTest, RefusesAnotherSecret) {
  HandshakeIo client = honest_client(2);
  EXPECT_EQ(shake(client), HandshakeIo::Progress::failed);
  EXPECT_TRUE(established_.empty());
}

TEST_F(AcceptorTest, TellsWhyItRefuses) {
  ConnectionIdentity other = kIdentity;
  other.path = PathId(77);
  HandshakeIo client = honest_client(1, other);
  ASSERT_EQ(shake(client), HandshakeIo::Progress::failed);
  EXPECT_NE(client.error().message().find("no such path here"), std::string::npos)
      << client.error().message();
  EXPECT_EQ(acceptor_->refused(), 1u);
  EXPECT_TRUE(established_.empty());
}

TEST_F(AcceptorTest, EndsAHalfOpenConnectionWhenItsTimeIsOver) {
  auto silent = connect();
  run_for(kMillisecond);
  const TimeNs deadline = acceptor_->next_timeout();
  EXPECT_LE(deadline, clock_.now() + limits::kHandshakeAgeMax);
  run_for(deadline - clock_.now() - 10 * kMillisecond);
  EXPECT_FALSE(closed(*silent));
  EXPECT_EQ(acceptor_->refused(), 0u);
  run_for(20 * kMillisecond);
  EXPECT_TRUE(closed(*silent));
  EXPECT_EQ(acceptor_->refused(), 1u);
  EXPECT_EQ(acceptor_->next_timeout(), kNever);
}

// A host may answer for the address of one NIC on another (ARP flux): a refusal would look like the
// peer's death.
TEST_F(AcceptorTest, TakesAPathThatComesByAnotherNicAndSaysByWhich) {
  ConnectionIdentity elsewhere = kIdentity;
  elsewhere.to_nic = NicId(3);
  HandshakeIo client = honest_client(1, elsewhere);
  EXPECT_EQ(shake(client), HandshakeIo::Progress::done);
  ASSERT_EQ(established_.size(), 1u);
  EXPECT_EQ(established_[0].came_by, kNic);
}

TEST_F(AcceptorTest, RefusesAPathWithoutANicAtTheListenerOfOne) {
  ConnectionIdentity elsewhere = kIdentity;
  elsewhere.to_nic = kNoNic;
  HandshakeIo client = honest_client(1, elsewhere);
  EXPECT_EQ(shake(client), HandshakeIo::Progress::failed);
  EXPECT_NE(client.error().message().find("listener of another NIC"), std::string::npos);
  EXPECT_TRUE(established_.empty());
}

// A stranger that knows all public values, also the run's number, which HELLOs carry openly.
TEST_F(AcceptorTest, AdmitsNoPeerWithoutTheRunsKey) {
  HandshakeIo client = honest_client(2);
  EXPECT_EQ(shake(client), HandshakeIo::Progress::failed);
  EXPECT_NE(client.error().message().find("wrong proof"), std::string::npos);
  EXPECT_TRUE(established_.empty());
}

TEST_F(AcceptorTest, AdmitsNoPeerBeforeTheRanksHaveMet) {
  run_ = RunIdentity();
  HandshakeIo client = honest_client();
  EXPECT_EQ(shake(client), HandshakeIo::Progress::failed);
  EXPECT_TRUE(established_.empty());
}

TEST_F(AcceptorTest, ADripOfBytesBuysNoTime) {
  auto slow = connect();
  run_for(kMillisecond);
  const auto hello = make_initiator(run_, kIdentity, Incarnation(), nonce(5), {});
  const std::vector<std::byte> bytes(hello->output().begin(), hello->output().end());
  size_t sent = 0;
  const TimeNs start = clock_.now();
  while (!closed(*slow) && sent + 1 < bytes.size()) {
    say(*slow, {bytes[sent++]});
    run_for(limits::kHandshakeAgeMax / 20);
    ASSERT_LE(clock_.now() - start, limits::kHandshakeAgeMax * 11 / 10);
  }
  EXPECT_GE(clock_.now() - start, limits::kHandshakeAgeMax * 9 / 10);
  EXPECT_TRUE(established_.empty());
}

TEST_F(AcceptorTest, AThousandSilentConnectionsDelayNoPeer) {
  const auto flooding = flood(client_host_, 1000);
  EXPECT_TRUE(lets_an_honest_client_in());
  EXPECT_LE(held(flooding), limits::kPendingHandshakesMax);
  EXPECT_GE(held(flooding), 200u);
  run_for(limits::kHandshakeAgeMax);
  EXPECT_EQ(acceptor_->refused(), 1000u) << "an admitted connection is not refused";
  EXPECT_EQ(acceptor_->next_timeout(), kNever);
}

TEST_F(AcceptorTest, LetsAnHonestPeerInWhileOthersKeepKnocking) {
  std::vector<std::unique_ptr<Connection>> flooding;
  HandshakeIo client = honest_client();
  auto progress = HandshakeIo::Progress::running;
  for (int i = 0; i < 50 && progress == HandshakeIo::Progress::running; ++i) {
    for (int k = 0; k < 20; ++k) flooding.push_back(connect());
    run_for(100 * kMicrosecond);
    progress = client.pump();
  }
  run_for(kMillisecond);
  EXPECT_EQ(progress, HandshakeIo::Progress::done);
  EXPECT_EQ(established_.size(), 1u);
}

// The honest peer's host is so busy that its next message takes longer than the flood needs to fill
// all places many times over.
TEST_F(AcceptorTest, AFloodFromAnotherHostPushesNoHonestPeerOut) {
  SimHost& flooder = fabric_.add_host("flooder");
  fabric_.add_nic(flooder, {.name = "nic0"});
  HandshakeIo client = honest_client();
  const auto flooding = flood(flooder, 2000);
  EXPECT_LE(held(flooding), limits::kPendingHandshakesMax);
  EXPECT_EQ(shake(client), HandshakeIo::Progress::done);
  EXPECT_EQ(established_.size(), 1u);
}

// A slow peer, and a flood from so many addresses that each has one place. After a shortage of
// descriptors 20 places are left.
TEST_F(AcceptorTest, AFloodFromManyAddressesPushesOutNoPeer) {
  std::vector<std::unique_ptr<Connection>> flooding;
  const auto flood_from = [&](int hosts) {
    for (int i = 0; i < hosts; ++i) {
      SimHost& flooder = fabric_.add_host("f" + std::to_string(flooding.size()));
      fabric_.add_nic(flooder, {.name = "nic0"});
      flooding.push_back(connect_from(flooder));
      if (i % 4 == 3) run_for(kMillisecond);
    }
    run_for(kMillisecond);
  };
  flood_from(39);
  server_host_.fail_operation(1, EMFILE);
  flood_from(1);
  ASSERT_LE(held(flooding), 20u);
  for (const bool is_peer : {false, true}) {
    if (is_peer) acceptor_->reserve({client_host_.address_of("nic0")});
    const size_t before = established_.size();
    HandshakeIo client = honest_client();
    flood_from(80);
    EXPECT_EQ(shake(client) == HandshakeIo::Progress::done, is_peer);
    EXPECT_EQ(established_.size(), before + (is_peer ? 1 : 0));
  }
}

// A clock that advances at each reading, as it would during handshakes.
class SlowClock final : public Clock {
 public:
  SlowClock(const Clock& clock, TimeNs step) : clock_(clock), step_(step) {}
  TimeNs now() const override { return clock_.now() + (lost_ += step_); }
  TimeNs wall() const override { return clock_.wall(); }

 private:
  const Clock& clock_;
  const TimeNs step_;
  mutable TimeNs lost_ = 0;
};

TEST_F(AcceptorTest, PendingConnectionsTakeAMillisecondOfEachPassAndDelayNoPeer) {
  const SlowClock slow(clock_, 200 * kMicrosecond);
  SimHost& peer_host = fabric_.add_host("peer");
  fabric_.add_nic(peer_host, {.name = "nic0"});
  Acceptor acceptor(reactor_, server_host_, slow, callbacks());
  ASSERT_TRUE(acceptor.begin().ok());
  acceptor.reserve({peer_host.address_of("nic0")});
  const Endpoint endpoint = acceptor.listen(server_host_.address_of("nic0"), "nic0", kNic).value();
  const auto pass = [&] {
    fabric_.run_for(kMillisecond);
    reactor_.poll(0);
    acceptor.progress(clock_.now());
  };
  std::vector<std::unique_ptr<Connection>> strangers;
  for (int i = 0; i < 60; ++i) {
    strangers.push_back(client_host_.connect(endpoint, ConnectOptions()).value());
  }
  HandshakeIo peer(peer_host.connect(endpoint, ConnectOptions()).value(),
                   make_initiator(run_, kIdentity, Incarnation(4), nonce(99), {}));
  for (int i = 0; i < 100; ++i) pass();  // all are accepted, a few in each pass
  for (const auto& stranger : strangers) say(*stranger, std::vector<std::byte>(100));
  (void)peer.pump();
  pass();
  const uint64_t first = acceptor.refused();
  EXPECT_GT(first, 0u);
  EXPECT_LE(first, 6u) << "the others wait for the next passes";
  for (int i = 0; i < 4; ++i) {
    (void)peer.pump();
    pass();
  }
  EXPECT_EQ(established_.size(), 1u);
  EXPECT_LT(acceptor.refused(), strangers.size()) << "the peer did not wait for them";
  for (int i = 0; i < 60; ++i) pass();
  EXPECT_EQ(acceptor.refused(), strangers.size());
}

TEST_F(AcceptorTest, ARecordingOfAnHonestPeerIsRefused) {
  const auto hello = make_initiator(run_, kIdentity, Incarnation(4), nonce(99), {});
  std::vector<std::byte> recording;
  const auto converse = [&](Connection& connection) {
    const std::vector<std::byte> bytes(hello->output().begin(), hello->output().end());
    say(connection, bytes);
    hello->sent(bytes.size());
    recording.insert(recording.end(), bytes.begin(), bytes.end());
    run_for(kMillisecond);
  };
  const auto honest = connect();
  run_for(kMillisecond);
  converse(*honest);
  std::array<std::byte, 1000> reply;
  const iovec slice{reply.data(), reply.size()};
  hello->consume(std::span(reply).first(honest->read({&slice, 1}).bytes));
  converse(*honest);
  ASSERT_EQ(established_.size(), 1u);
  recording.resize(recording.size() + 1000);  // and the control stream's bytes after the handshake

  const auto again = connect();
  run_for(kMillisecond);
  say(*again, recording);
  run_for(5 * kMillisecond);
  EXPECT_EQ(established_.size(), 1u);
  EXPECT_EQ(acceptor_->refused(), 1u);
  run_for(200 * kMillisecond);
  EXPECT_TRUE(closed(*again));
}

TEST_F(AcceptorTest, PendingConnectionsGiveDescriptorsBackWhenTheseRunOut) {
  const auto flooding = flood(client_host_, 100);
  ASSERT_EQ(held(flooding), 100u);
  HandshakeIo client(connect(), make_initiator(run_, kIdentity, Incarnation(4), nonce(99), {}));
  server_host_.fail_operation(1, EMFILE);
  EXPECT_EQ(shake(client, 5 * kMillisecond), HandshakeIo::Progress::done) << "no rest was needed";
  EXPECT_LE(held(flooding), 50u);
  const auto later = flood(client_host_, 100);
  EXPECT_LE(held(flooding) + held(later), 50u) << "others in the process need some";
  run_for(limits::kHandshakeAgeMax + 5 * kSecond);
  EXPECT_EQ(held(flood(client_host_, 200)), 200u) << "it does not last for ever";
}

TEST_F(AcceptorTest, RestsAfterAShortageOfDescriptorsAndGoesOn) {
  HandshakeIo client = honest_client();  // earlier: its connect is an operation of its host
  auto second = connect();
  server_host_.fail_operation(1, EMFILE);
  const TimeNs start = clock_.now();
  run_for(2 * kMillisecond);
  EXPECT_NE(acceptor_->next_timeout(), kNever);
  EXPECT_GT(acceptor_->next_timeout(), start);
  const uint64_t operations = server_host_.operations();
  run_for(5 * kMillisecond);
  EXPECT_EQ(server_host_.operations(), operations)
      << "no spinning on a connection that cannot be accepted";
  run_for(200 * kMillisecond);
  EXPECT_EQ(shake(client), HandshakeIo::Progress::done);
  EXPECT_FALSE(closed(*second));
}

TEST_F(AcceptorTest, ANicHasOneListenerForAllItsAddresses) {
  const Endpoint first = endpoint_;
  endpoint_ = acceptor_->listen({}, "nic0", kNic).value();
  EXPECT_NE(endpoint_.port, first.port);
  EXPECT_FALSE(acceptor_->listen(client_host_.address_of("nic0"), "", kNic).ok());
  endpoint_.address = server_host_.address_of("nic0");
  EXPECT_TRUE(lets_an_honest_client_in());
  Address other = endpoint_.address;
  other.bytes[3] ^= 64;
  fabric_.set_addresses(*server_host_.machine().nic_named("nic0"), {other});
  endpoint_.address = other;
  EXPECT_TRUE(lets_an_honest_client_in());
  endpoint_.port = first.port;
  EXPECT_FALSE(lets_an_honest_client_in()) << "the earlier listener is gone";
}

TEST_F(AcceptorTest, APeerThatLeavesInTheMiddleCostsNothing) {
  for (int i = 0; i < 10; ++i) {
    auto leaver = connect();
    run_for(kMillisecond);
    say(*leaver, std::vector<std::byte>(1, std::byte{'R'}));
    leaver.reset();
    run_for(5 * kMillisecond);
  }
  EXPECT_EQ(acceptor_->refused(), 10u);
  run_for(200 * kMillisecond);
  EXPECT_EQ(acceptor_->next_timeout(), kNever);
}

TEST_F(AcceptorTest, AnEarlyPeerWaitsUntilTheAcceptorBegins) {
  acceptor_.emplace(reactor_, server_host_, clock_, callbacks());
  endpoint_ = acceptor_->listen(server_host_.address_of("nic0"), "nic0", kNic).value();
  HandshakeIo client = honest_client();
  EXPECT_EQ(shake(client, 2 * kSecond), HandshakeIo::Progress::running);
  EXPECT_EQ(acceptor_->refused(), 0u);
  ASSERT_TRUE(acceptor_->begin().ok());
  EXPECT_EQ(shake(client), HandshakeIo::Progress::done);
  EXPECT_EQ(established_.size(), 1u);
}

}  // namespace
}  // namespace r2ccl
