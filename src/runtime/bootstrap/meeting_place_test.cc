#include "runtime/bootstrap/meeting_place.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

Endpoint at(const std::string& address, uint16_t port = 29500) {
  return {*parse_address(address), port};
}

std::vector<Nic> nics(const std::vector<std::string>& addresses) {
  Nic nic;
  nic.name = "eth0";
  nic.usable = nic.up = nic.carrier = true;
  for (const std::string& each : addresses) nic.addresses.push_back(*parse_address(each));
  return {nic};
}

std::vector<std::string> listening(const std::string& host, const std::vector<Endpoint>& found,
                                   const std::vector<Nic>& own,
                                   AddressFamily family = AddressFamily::none) {
  std::vector<std::string> out;
  for (const Endpoint& each : plan_meeting({host, 29500}, found, own, family).listen) {
    out.push_back(to_string(each));
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST(MeetingPlace, AnAddressOfThisHostIsTheOnlyPlace) {
  EXPECT_EQ(listening("10.0.0.1", {at("10.0.0.1")}, nics({"10.0.0.1", "10.0.0.2"})),
            Texts{"10.0.0.1:29500"});
}

TEST(MeetingPlace, ANameLeadsToAllAddressesBecauseOtherHostsMayKnowOthersByIt) {
  const Texts all = {"0.0.0.0:29500", "[::]:29500"};
  const auto own = nics({"10.0.0.1", "fd00::1"});
  EXPECT_EQ(listening("node0", {at("127.0.1.1")}, own), all) << "as Debian calls its own host";
  EXPECT_EQ(listening("node0", {at("10.0.0.1")}, own), all);
  EXPECT_EQ(listening("node0", {}, own), all) << "a name that this host does not know";
  EXPECT_EQ(listening("node0", {}, nics({"10.0.0.1"})), Texts{"0.0.0.0:29500"});
  EXPECT_EQ(listening("node0", {}, own, AddressFamily::ipv6), Texts{"[::]:29500"});
}

TEST(MeetingPlace, AnAddressOfNoInterfaceLeadsToAllAddresses) {
  EXPECT_EQ(listening("10.96.0.5", {at("10.96.0.5")}, nics({"10.0.0.1"})), Texts{"0.0.0.0:29500"});
  const auto meeting = plan_meeting({"10.96.0.5", 1}, std::vector{at("10.96.0.5", 1)},
                                    nics({"10.0.0.1"}), AddressFamily::none);
  EXPECT_EQ(meeting.dial.front(), at("127.0.0.1", 1)) << "no host must reach itself by a service";
  EXPECT_NE(meeting.note.find("on no interface"), std::string::npos);
}

TEST(MeetingPlace, TheLoopbackStaysClosedToOtherHostsAndSaysSo) {
  for (const char* name : {"127.0.0.1", "localhost", "LocalHost.", "a.localhost",
                           "localhost.localdomain", "ip6-localhost"}) {
    const auto meeting = plan_meeting({name, 29500}, std::vector{at("127.0.0.1")},
                                      nics({"10.0.0.1"}), AddressFamily::none);
    EXPECT_TRUE(meeting.is_loopback) << name;
    EXPECT_EQ(meeting.listen, std::vector{at("127.0.0.1")}) << name;
    EXPECT_NE(meeting.note.find("loopback only"), std::string::npos) << name;
  }
  EXPECT_FALSE(is_loopback_name("localhoster"));
}

TEST(MeetingPlace, AnIdNamesAddressesThatOtherHostsReach) {
  const auto own = nics({"10.0.0.1"});
  const std::vector<Endpoint> of_nics = {at("10.0.0.1", 0)};
  const auto published = [&](const std::string& host, const std::vector<Endpoint>& found) {
    return published_endpoints(plan_meeting({host, 29500}, found, own, AddressFamily::none), found,
                               of_nics, 3);
  };
  EXPECT_EQ(published("node0", {at("127.0.1.1")}), std::vector{at("10.0.0.1")});
  EXPECT_EQ(published("10.96.0.5", {at("10.96.0.5")}),
            (std::vector{at("10.96.0.5"), at("10.0.0.1")}));
  EXPECT_EQ(published("10.0.0.1", {at("10.0.0.1")}), std::vector{at("10.0.0.1")});
  EXPECT_EQ(published("localhost", {at("127.0.0.1")}), std::vector{at("127.0.0.1")});
}

}  // namespace
}  // namespace r2ccl
