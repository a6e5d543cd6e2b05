// Connections to an engine that come before its start: the rendezvous ends for the other ranks
// earlier, and strangers come at any time. src/sim tests engines that have started.
#include "runtime/engine/progress_engine.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "sim/fabric/fabric.h"

namespace r2ccl {

using namespace sim;
namespace {

constexpr Rank kSelf{2};
constexpr Rank kPeer{1};
constexpr Rank kOther{0};

class Unobserved final : public EngineObserver {
  void on_path_event(const PathEvent&) override {}
  void on_notice(Rank, std::span<const std::byte>) override {}
  void on_goodbye(Rank) override {}
  void on_peer_end(Rank, PeerEnd, const std::string&) override {}
  void on_bad_memory(const BadMemory&) override {}
  bool is_closed(ContextId, Rank) const override { return false; }
  void on_contradiction(Rank, const std::string&) override {}
};

// The highest of three ranks, so the others open the paths. The test is these.
class StartingEngine : public testing::Test, private ProcessEngine::Member {
 protected:
  StartingEngine() {
    process_.add(*this);
    EXPECT_TRUE(engine_.open().ok());
  }
  ~StartingEngine() override { process_.remove(*this); }

  static RunIdentity make_run() {
    RunIdentity run;
    run.key = LockedBytes::copy_of(std::vector<std::byte>(kSecretBytes, std::byte{1}));
    return run;
  }
  // Returns the description of the rank on that host, without listeners.
  static RankInfo info_of(Rank rank, SimHost& host) {
    RankInfo info;
    info.rank = rank;
    info.host_name = host.name();
    info.host[0] = static_cast<std::byte>(rank.value() + 1);
    NicInfo& nic = info.nics.emplace_back();
    nic.name = "nic0";
    nic.addresses = {host.address_of("nic0")};
    nic.port = 1;
    return info;
  }
  // Starts the engine in a job whose rank 0 has these NICs.
  Status start(const std::vector<NicInfo>& nics_of_other) {
    RankInfo self = info_of(kSelf, host_);
    self.nics.clear();
    engine_.describe(self);
    std::vector<RankInfo> table = {info_of(kOther, other_host_), info_of(kPeer, peer_host_), self};
    table[0].nics = nics_of_other;
    return engine_.start(kSelf, {std::move(table), make_run()}, observer_);
  }
  Status start() { return start(info_of(kOther, other_host_).nics); }

  std::unique_ptr<Connection> connect() {
    RankInfo info;
    engine_.describe(info);
    return peer_host_.connect({host_.address_of("nic0"), info.nics[0].port}, {}).value();
  }
  // Returns the peer's dial of its path to this rank.
  HandshakeIo dial() {
    const ConnectionIdentity identity{
        ConnectionKind::data, kPeer, kSelf, PathId(0), NicId(0), NicId(0)};
    return {connect(), make_initiator(make_run(), identity, Incarnation(), nonce(), {})};
  }
  EngineOptions options() {
    EngineOptions options;
    options.nonce = [this] { return nonce(); };
    return options;
  }
  std::array<std::byte, kNonceBytes> nonce() { return {static_cast<std::byte>(++nonces_)}; }

  void run_for(TimeNs duration) {
    for (const TimeNs end = clock_.now() + duration; clock_.now() < end;) {
      fabric_.run_for(100 * kMicrosecond);
      process_.progress(0);
    }
  }
  HandshakeIo::Progress shake(HandshakeIo& client) {
    auto state = client.pump();
    for (int i = 0; i < 1000 && state == HandshakeIo::Progress::running; ++i) {
      run_for(100 * kMicrosecond);
      state = client.pump();
    }
    return state;
  }

 private:
  Rank self() const override { return kSelf; }
  void progress() override { engine_.progress(); }
  TimeNs next_timeout() override { return engine_.next_timeout(); }
  bool busy() const override { return false; }
  void on_nics_changed() override { engine_.on_nics_changed(); }
  bool caller_waits_outside(uint64_t) const override { return false; }
  void on_caller_waits() override {}
  void on_exception(const std::exception& error) noexcept override {
    ADD_FAILURE() << error.what();
  }

  VirtualClock clock_;
  Fabric fabric_{1, clock_};

 protected:
  SimHost& other_host_ = add_host("h0");
  SimHost& peer_host_ = add_host("h1");
  SimHost& host_ = add_host("h2");

 private:
  SimHost& add_host(const std::string& name) {
    SimHost& host = fabric_.add_host(name);
    fabric_.add_nic(host, {.name = "nic0"});
    return host;
  }

  int nonces_ = 0;
  Unobserved observer_;
  ProcessEngine process_{host_, clock_};

 protected:
  ProgressEngine engine_{process_, *this, options()};
};

TEST_F(StartingEngine, APeerThatComesBeforeTheStartIsLetInAfterIt) {
  HandshakeIo client = dial();
  EXPECT_EQ(shake(client), HandshakeIo::Progress::running) << "it is not refused";
  ASSERT_TRUE(start().ok());
  EXPECT_EQ(shake(client), HandshakeIo::Progress::done);
}

TEST_F(StartingEngine, AStrangerWhoComesBeforeTheStartHarmsNobody) {
  const std::unique_ptr<Connection> stranger = connect();
  run_for(kMillisecond);
  std::vector<std::byte> bytes(1000, std::byte{'R'});
  const iovec slice{bytes.data(), bytes.size()};
  EXPECT_EQ(stranger->write({&slice, 1}).kind, IoKind::progressed);
  HandshakeIo client = dial();
  EXPECT_EQ(shake(client), HandshakeIo::Progress::running);
  ASSERT_TRUE(start().ok());
  EXPECT_EQ(shake(client), HandshakeIo::Progress::done);
  run_for(kSecond);
  IoResult read = stranger->read({&slice, 1});
  while (read.kind == IoKind::progressed) read = stranger->read({&slice, 1});
  EXPECT_NE(read.kind, IoKind::blocked) << "it is refused";
}

// Rank 0 has no network in common with this rank, so the start ends before it comes to rank 1. That
// rank may reach this one, and knows nothing of the error.
TEST_F(StartingEngine, AStartThatFailsAcceptsNoPeer) {
  HandshakeIo early = dial();
  const Status status = start({});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("no NICs that could reach each other"), std::string::npos)
      << status.message();
  HandshakeIo late = dial();
  EXPECT_EQ(shake(early), HandshakeIo::Progress::running);
  EXPECT_EQ(shake(late), HandshakeIo::Progress::running);
}

}  // namespace
}  // namespace r2ccl
