#include "runtime/nics/local_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <set>

#include "base/limits.h"
#include "sim/fabric/fabric.h"

namespace r2ccl {

using namespace sim;
namespace {

constexpr NicId kNic{0};
constexpr NicId kOther{1};

// A host's transport. The test may change the kernel's numbers of its NICs, and refuse listeners.
class TestTransport final : public Transport {
 public:
  explicit TestTransport(SimHost& host) : host_(host) {}

  std::map<std::string, uint32_t> indices;  // by name, in place of the host's
  std::set<AddressFamily> refused;          // families of addresses to listen on

  Poller& poller() override { return host_.poller(); }
  Result<std::vector<Nic>> nics() override {
    auto all = host_.nics();
    if (!all.ok()) return all;
    for (Nic& nic : all.value()) {
      if (indices.contains(nic.name)) nic.index = indices[nic.name];
    }
    return all;
  }
  int nic_events_poll_id() const override { return host_.nic_events_poll_id(); }
  bool drain_nic_events() override { return host_.drain_nic_events(); }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                           const std::string& device) override {
    if (refused.contains(local.address.family)) return system_error("listen", EMFILE);
    return host_.listen(local, device);
  }
  Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                              const ConnectOptions& options) override {
    return host_.connect(remote, options);
  }

 private:
  SimHost& host_;
};

// A host with two data NICs and one for management, each on a network of its own.
class LocalNicsTest : public testing::Test {
 protected:
  std::unique_ptr<Acceptor> make_acceptor() {
    return std::make_unique<Acceptor>(reactor_, transport_, clock_, Acceptor::Callbacks());
  }
  static std::array<std::byte, kNonceBytes> name() { return {std::byte{7}}; }
  Status open(const ListenOptions& options = {}) { return nics_.open(options, name); }
  static ListenOptions in_memory() {
    ListenOptions options;
    options.shm = true;
    return options;
  }
  RankInfo described() const {
    RankInfo info;
    nics_.describe(info);
    return info;
  }
  // Returns what a user's choice of out-of-band NICs, or the rendezvous, leads to: its address; of
  // family none: only lo.
  Address out_of_band(const std::string& ifname, std::vector<Endpoint> rendezvous = {}) {
    ListenOptions options;
    options.oob_ifname = ifname;
    options.rendezvous = std::move(rendezvous);
    LocalNics fresh(transport_, queues_, make_acceptor());
    EXPECT_TRUE(fresh.open(options, name).ok());
    RankInfo info;
    fresh.describe(info);
    EXPECT_TRUE(is_loopback(info.control.back().address));
    return info.control.size() == 1 ? Address() : info.control.front().address;
  }
  // Reads the NICs, which may have changed, and returns the changes.
  LocalNics::Changes changes() {
    nics_.on_changed();
    EXPECT_TRUE(nics_.may_have_changed(clock_.now()));
    return nics_.read(clock_.now());
  }
  static Address neighbour_of(const SimNic& nic) {
    Address address = nic.addresses.front();
    address.bytes[3] = 99;
    return address;
  }
  size_t listeners() { return host_.machine().listeners.size(); }

  VirtualClock clock_;
  Fabric fabric_{1, clock_};
  SimHost& host_ = fabric_.add_host("host");
  SimNic& first_ = fabric_.add_nic(host_, {.name = "nic0", .rail = 0});
  SimNic& second_ = fabric_.add_nic(host_, {.name = "nic1", .rail = 1});
  SimNic& management_ = fabric_.add_nic(host_, {.name = "mgmt", .rail = 2, .data = false});
  TestTransport transport_{host_};
  Reactor reactor_{host_.poller()};
  NicQueues queues_;
  LocalNics nics_{transport_, queues_, make_acceptor()};
};

// A kernel may answer on one NIC for the address of another. A rank of this host must be found
// there too, or the peer would take it for dead.
TEST_F(LocalNicsTest, ListensAtOnePortOnAllDataNics) {
  ASSERT_TRUE(open().ok());
  const RankInfo info = described();
  ASSERT_EQ(info.nics.size(), 2U);
  EXPECT_EQ(info.nics[0].name, "nic0");
  EXPECT_EQ(info.nics[1].name, "nic1");
  EXPECT_NE(info.nics[0].port, 0);
  EXPECT_EQ(info.nics[0].port, info.nics[1].port);
  ASSERT_EQ(info.control.size(), 1U);
  EXPECT_TRUE(is_loopback(info.control[0].address));
  EXPECT_EQ(info.shm.address.family, AddressFamily::none);
  EXPECT_EQ(listeners(), 3U);
}

TEST_F(LocalNicsTest, TakesAnotherPortOnANicWhereThatOneIsTaken) {
  const uint16_t port = host_.machine().next_port;
  const auto stranger = host_.listen({Address(), port}, "nic1");
  ASSERT_TRUE(stranger.ok());
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(nics_.info(kNic).port, port);
  EXPECT_NE(nics_.info(kOther).port, port);
  EXPECT_NE(nics_.info(kOther).port, 0);
}

TEST_F(LocalNicsTest, FailsWithoutADataNicAndTellsWhatItFound) {
  fabric_.pull(first_);
  fabric_.down(second_);
  const Status status = open();
  ASSERT_FALSE(status.ok());
  for (const char* part : {"R2CCL_SOCKET_IFNAME", "nic0: no carrier", "nic1: down"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST_F(LocalNicsTest, UsesNoMoreNicsThanPeersAccept) {
  for (size_t i = 2; i < limits::kNicsMax + 2; ++i) {
    const auto rail = static_cast<uint32_t>(i + 1);
    fabric_.add_nic(host_, {.name = "nic" + std::to_string(i), .rail = rail});
  }
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(nics_.count(), limits::kNicsMax);
}

// A data NIC in the network of the rendezvous would be no other way to the peers.
TEST_F(LocalNicsTest, TheOutOfBandNicIsInTheNetworkOfTheRendezvousAndCarriesNoData) {
  EXPECT_EQ(out_of_band("", {{neighbour_of(management_), 7000}}), host_.address_of("mgmt"));
  EXPECT_EQ(out_of_band("", {{neighbour_of(first_), 7000}}), Address());
  fabric_.pull(management_);
  EXPECT_EQ(out_of_band("", {{neighbour_of(management_), 7000}}), Address());
}

TEST_F(LocalNicsTest, TheUserNamesTheOutOfBandNicOrLeavesItOut) {
  EXPECT_EQ(out_of_band("mgmt"), host_.address_of("mgmt"));
  EXPECT_EQ(out_of_band("^mgmt", {{neighbour_of(management_), 7000}}), Address());
  ListenOptions unknown;
  unknown.oob_ifname = "eth9";
  unknown.oob_ifname_variable = "THE_VARIABLE";
  const Status status = open(unknown);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("THE_VARIABLE"), std::string::npos) << status.message();
}

TEST_F(LocalNicsTest, ListensInSharedMemoryOnlyIfItMayAndCan) {
  ASSERT_TRUE(open(in_memory()).ok());
  EXPECT_EQ(described().shm.address.family, AddressFamily::local);
  EXPECT_EQ(described().shm.address.bytes[0], 7);
  transport_.refused = {AddressFamily::local};
  LocalNics without(transport_, queues_, make_acceptor());
  EXPECT_TRUE(without.open(in_memory(), name).ok()) << "ranks of this host use lo";
  RankInfo info;
  without.describe(info);
  EXPECT_EQ(info.shm.address.family, AddressFamily::none);
}

TEST_F(LocalNicsTest, TellsOnceThatANicHasGoneAndWhy) {
  ASSERT_TRUE(open().ok());
  fabric_.pull(second_);
  fabric_.down(first_);
  const LocalNics::Changes gone = changes();
  ASSERT_EQ(gone.nics.size(), 2U);
  EXPECT_EQ(gone.nics[0].nic, kNic);
  EXPECT_EQ(gone.nics[0].alive, false);
  EXPECT_EQ(gone.nics[0].cause, DownCause::interface_down);
  EXPECT_EQ(gone.nics[1].nic, kOther);
  EXPECT_EQ(gone.nics[1].alive, false);
  EXPECT_EQ(gone.nics[1].cause, DownCause::carrier_lost);
  EXPECT_TRUE(changes().nics.empty());
  fabric_.fix(second_);
  const LocalNics::Changes back = changes();
  ASSERT_EQ(back.nics.size(), 1U);
  EXPECT_EQ(back.nics[0].nic, kOther);
  EXPECT_EQ(back.nics[0].alive, true);
  EXPECT_FALSE(back.nics[0].moved) << "the peers know its address";
}

TEST_F(LocalNicsTest, ANewAddressIsToldAndTheOldOneIsLost) {
  ASSERT_TRUE(open().ok());
  const NicInfo before = nics_.info(kNic);
  const Address address = neighbour_of(first_);
  fabric_.set_addresses(first_, {address});
  const LocalNics::Changes moved = changes();
  ASSERT_EQ(moved.nics.size(), 1U);
  EXPECT_EQ(moved.nics[0].nic, kNic);
  EXPECT_TRUE(moved.nics[0].moved);
  EXPECT_FALSE(moved.nics[0].alive.has_value());
  EXPECT_EQ(moved.lost, before.addresses);
  EXPECT_EQ(nics_.info(kNic).addresses, std::vector{address});
  EXPECT_EQ(nics_.info(kNic).port, before.port) << "the listener is bound to the device";
  EXPECT_TRUE(nics_.is_own(address));
  EXPECT_FALSE(nics_.is_own(before.addresses[0]));
  EXPECT_TRUE(changes().nics.empty());
}

// The host still has the address, so no connection from it is dead.
TEST_F(LocalNicsTest, AnAddressThatMovesToAnotherNicIsNotLost) {
  ASSERT_TRUE(open().ok());
  const std::vector<Address> first = first_.addresses;
  const std::vector<Address> second = second_.addresses;
  fabric_.set_addresses(first_, second);
  fabric_.set_addresses(second_, first);
  const LocalNics::Changes swapped = changes();
  EXPECT_EQ(swapped.nics.size(), 2U);
  EXPECT_TRUE(swapped.lost.empty());
  EXPECT_EQ(nics_.info(kNic).addresses, second);
}

// Peers have given up the address meanwhile.
TEST_F(LocalNicsTest, AnAddressThatComesBackIsToldAgain) {
  ASSERT_TRUE(open().ok());
  const std::vector<Address> before = first_.addresses;
  fabric_.set_addresses(first_, {});
  const LocalNics::Changes without = changes();
  EXPECT_TRUE(without.nics.empty()) << "there is no address to tell";
  EXPECT_EQ(without.lost, before);
  fabric_.set_addresses(first_, before);
  const LocalNics::Changes back = changes();
  ASSERT_EQ(back.nics.size(), 1U);
  EXPECT_TRUE(back.nics[0].moved);
}

// The old listener is bound to a device that is no more. It may take some time to listen again.
TEST_F(LocalNicsTest, ADeviceThatIsMadeAnewGetsAListenerOfItsOwn) {
  ASSERT_TRUE(open().ok());
  const uint16_t port = nics_.info(kNic).port;
  transport_.indices["nic0"] = 40;
  transport_.refused = {AddressFamily::none};
  EXPECT_TRUE(changes().nics.empty());
  EXPECT_EQ(nics_.info(kNic).port, port);
  const TimeNs again = nics_.next_timeout();
  ASSERT_LT(again, clock_.now() + kSecond);
  EXPECT_FALSE(nics_.may_have_changed(clock_.now()));
  transport_.refused.clear();
  ASSERT_TRUE(nics_.may_have_changed(again));
  const LocalNics::Changes moved = nics_.read(again);
  ASSERT_EQ(moved.nics.size(), 1U);
  EXPECT_TRUE(moved.nics[0].moved) << "the peers need the new port";
  EXPECT_NE(nics_.info(kNic).port, port);
  EXPECT_EQ(listeners(), 3U) << "the old listener has gone";
  EXPECT_EQ(nics_.next_timeout(), kNever);
  EXPECT_TRUE(changes().nics.empty()) << "the device is known now";
}

TEST_F(LocalNicsTest, ForgetsNoChangeWhenTheNicsCannotBeRead) {
  ASSERT_TRUE(open().ok());
  fabric_.pull(first_);
  host_.fail_operation(1, EMFILE);
  const LocalNics::Changes unread = changes();
  EXPECT_TRUE(unread.nics.empty());
  EXPECT_TRUE(unread.lost.empty()) << "the host has not lost its addresses";
  EXPECT_FALSE(nics_.may_have_changed(clock_.now())) << "no spinning";
  const TimeNs again = nics_.next_timeout();
  ASSERT_LT(again, clock_.now() + kSecond);
  EXPECT_EQ(nics_.read(again).nics.size(), 1U);
}

TEST_F(LocalNicsTest, ADoubtReadsTheNicsOnceInAnInterval) {
  ASSERT_TRUE(open().ok());
  const TimeNs now = clock_.now();
  EXPECT_TRUE(nics_.read(now).nics.empty());
  EXPECT_EQ(nics_.next_timeout(), kNever);
  nics_.doubt(100 * kMillisecond);
  nics_.doubt(kSecond);  // of another path, in less hurry
  EXPECT_EQ(nics_.next_timeout(), now + 100 * kMillisecond);
  EXPECT_FALSE(nics_.may_have_changed(now + 100 * kMillisecond - 1));
  EXPECT_TRUE(nics_.may_have_changed(now + 100 * kMillisecond));
}

TEST_F(LocalNicsTest, OwnAddressesAreThoseThatNoOtherHostHas) {
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(nics_.is_own(host_.address_of("nic1")));
  EXPECT_TRUE(nics_.is_own(host_.address_of("mgmt"))) << "a path through a router may lead there";
  EXPECT_FALSE(nics_.is_own(host_.address_of("lo")));
  EXPECT_FALSE(nics_.is_own(neighbour_of(first_)));
}

class Owner final : public DialGate::Place::Owner {
  void on_admitted() override {}
};

// Each NIC's dials may hang for long, when its network is dead.
TEST_F(LocalNicsTest, DialsOfOneKindHoldUpNoOthers) {
  ASSERT_TRUE(open().ok());
  Owner owner;
  std::deque<DialGate::Place> places;
  const std::vector<DialGate*> gates = {
      &nics_.dial_gate(kNic, false), &nics_.dial_gate(kOther, false),
      &nics_.dial_gate(kNoNic, true), &nics_.dial_gate(kNoNic, false)};
  size_t inside = 0;
  for (DialGate* gate : gates) {
    EXPECT_TRUE(places.emplace_back(owner).enter(*gate));
    while (places.emplace_back(owner).enter(*gate)) {
    }
    inside += gate->inside();
  }
  EXPECT_LE(inside, limits::kFirstDialsMax) << "peers are dialed by all";
}

TEST_F(LocalNicsTest, RanksOfAProcessHaveOneAccountOfEachNic) {
  LocalNics other(transport_, queues_, make_acceptor());
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(other.open({}, name).ok());
  nics_.queue(kNic).on_sent(100, true, clock_.now());
  EXPECT_EQ(other.queue(kNic).outstanding(), 100U);
  EXPECT_EQ(other.queue(kOther).outstanding(), 0U);
  EXPECT_EQ(other.queue(kNoNic).outstanding(), 0U);
  other.queue(kNoNic).on_sent(7, true, clock_.now());
  EXPECT_EQ(nics_.queue(kNoNic).outstanding(), 7U);
}

// A rank that halts must be found gone, and reports of it go on.
TEST_F(LocalNicsTest, ClosesAllListenersAndStillAnswersQuestions) {
  ListenOptions all = in_memory();
  all.oob_ifname = "mgmt";
  ASSERT_TRUE(open(all).ok());
  const RankInfo before = described();
  EXPECT_EQ(listeners(), 5U);
  nics_.close();
  EXPECT_EQ(listeners(), 0U);
  EXPECT_EQ(described(), before);
  EXPECT_TRUE(nics_.is_own(host_.address_of("nic0")));
}

}  // namespace
}  // namespace r2ccl
