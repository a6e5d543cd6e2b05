#include "transport/nic_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace r2ccl {
namespace {

Nic make_nic(const std::string& name, NicKind kind, const std::vector<std::string>& addresses) {
  Nic nic;
  nic.name = name;
  nic.kind = kind;
  nic.up = nic.carrier = true;
  for (const std::string& text : addresses) nic.addresses.push_back(*parse_address(text));
  return nic;
}

// A host that has one of everything.
std::vector<Nic> host() {
  std::vector<Nic> nics = {
      make_nic("lo", NicKind::loopback, {"127.0.0.1", "::1"}),
      make_nic("eth0", NicKind::ethernet, {"10.0.0.1", "fe80::1"}),
      make_nic("eth1", NicKind::ethernet, {"fd00::1"}),
      make_nic("eth10", NicKind::ethernet, {"fe80::10"}),
      make_nic("ib0", NicKind::infiniband, {"10.0.2.1"}),
      make_nic("docker0", NicKind::bridge, {"172.17.0.1"}),
      make_nic("wg0", NicKind::wireguard, {"10.9.0.1"}),
      make_nic("veth1a2b", NicKind::veth, {}),
      make_nic("dummy0", NicKind::dummy, {"10.8.0.1"}),
      make_nic("slave0", NicKind::ethernet, {"10.7.0.1"}),
      make_nic("bond0", NicKind::bond, {"10.7.0.2"}),
      make_nic("eth0.7", NicKind::vlan, {"10.6.0.1"}),
      make_nic("off0", NicKind::ethernet, {"10.5.0.1"}),
      make_nic("pulled0", NicKind::ethernet, {"10.5.0.2"}),
      make_nic("nic0", NicKind::veth, {"10.4.0.1"}),
  };
  for (Nic& nic : nics) {
    if (nic.name == "slave0") nic.master = 11;
    if (nic.name == "off0") nic.up = nic.carrier = false;
    if (nic.name == "pulled0") nic.carrier = false;
  }
  return nics;
}

std::vector<Nic> choose(const std::string& filter) {
  Result<std::vector<Nic>> nics = choose_nics(host(), {.text = filter, .variable = "IFNAME"});
  EXPECT_TRUE(nics.ok()) << nics.status().message();
  return nics.ok() ? std::move(nics).value() : std::vector<Nic>{};
}

std::string chosen(const std::string& filter) {
  std::string out;
  for (const Nic& nic : choose(filter)) {
    if (nic.usable) out += (out.empty() ? "" : " ") + nic.name;
  }
  return out;
}

std::string reason(const std::string& filter, const std::string& name) {
  for (const Nic& nic : choose(filter)) {
    if (nic.name == name) return nic.reason;
  }
  return "no such NIC";
}

std::string error(const std::string& filter) {
  const Result<std::vector<Nic>> nics = choose_nics(host(), {.text = filter, .variable = "IFNAME"});
  EXPECT_EQ(nics.status().code(), Code::invalid_argument) << filter;
  return nics.status().message();
}

TEST(NicChoice, WithoutAFilterTakesTheNicsThatCarryDataAndSaysWhyNotTheRest) {
  EXPECT_EQ(chosen(""), "eth0 eth1 ib0 bond0 eth0.7 nic0");
  EXPECT_EQ(reason("", "eth0"), "chosen: ethernet");
  EXPECT_EQ(reason("", "lo"), "not used: loopback");
  EXPECT_EQ(reason("", "eth10"), "not used: only a link-local address");
  EXPECT_EQ(reason("", "docker0"), "not used: bridge");
  EXPECT_EQ(reason("", "wg0"), "not used: wireguard");
  EXPECT_EQ(reason("", "dummy0"), "not used: dummy");
  EXPECT_EQ(reason("", "veth1a2b"), "not used: no address");
  EXPECT_EQ(reason("", "slave0"), "not used: part of a bond or bridge");
  EXPECT_EQ(reason("", "off0"), "not used: down");
  EXPECT_EQ(reason("", "pulled0"), "not used: no carrier");
}

std::string chosen_of(const std::vector<Nic>& nics, const std::string& filter = "",
                      const std::vector<std::string>& routed = {}) {
  std::string out;
  const auto decided = choose_nics(nics, {.text = filter, .variable = "IFNAME"}, routed);
  EXPECT_TRUE(decided.ok()) << decided.status().message();
  for (const Nic& nic : decided.value()) {
    if (nic.usable) out += (out.empty() ? "" : " ") + nic.name;
  }
  return out;
}

TEST(NicChoice, AHostWithoutAnotherNicUsesItsBridgesAndThenItsLoopback) {
  std::vector<Nic> nics = {make_nic("lo", NicKind::loopback, {"127.0.0.1", "::1"})};
  EXPECT_EQ(chosen_of(nics), "lo");
  EXPECT_EQ(chosen_of(nics, "^lo"), "");
  nics.push_back(make_nic("dummy0", NicKind::dummy, {"10.8.0.1"}));
  nics.push_back(make_nic("eth0", NicKind::ethernet, {}));
  nics.back().master = 4;
  EXPECT_EQ(chosen_of(nics), "lo");
  nics.push_back(make_nic("vmbr0", NicKind::bridge, {"10.0.0.1"}));
  nics.push_back(make_nic("docker0", NicKind::bridge, {"172.17.0.1"}));
  EXPECT_EQ(chosen_of(nics), "vmbr0 docker0");
  EXPECT_EQ(chosen_of(nics, "^docker"), "vmbr0");
  EXPECT_EQ(chosen_of(nics, "", {"vmbr0", "eth7"}), "vmbr0");
  nics[3].carrier = false;
  EXPECT_EQ(chosen_of(nics, "", {"vmbr0", "eth7"}), "docker0");
  nics.push_back(make_nic("eth1", NicKind::ethernet, {"10.1.0.1"}));
  EXPECT_EQ(chosen_of(nics), "eth1");
  EXPECT_EQ(chosen_of(nics, "^eth1"), "") << "that leaves out the host's only NIC";
}

TEST(NicChoice, NamesArePrefixes) {
  EXPECT_EQ(chosen("eth"), "eth0 eth1 eth10 eth0.7");
  EXPECT_EQ(chosen("eth1,nic"), "eth1 eth10 nic0");
  EXPECT_EQ(chosen(" nic0 , ,ib "), "ib0 nic0");
  EXPECT_EQ(reason("nic", "nic0"), "chosen: named by IFNAME=nic");
  EXPECT_EQ(reason("nic", "eth0"), "not used: not named by IFNAME=nic");
}

TEST(NicChoice, AnEqualSignMakesAllNamesOfTheListExact) {
  EXPECT_EQ(chosen("=eth1"), "eth1");
  EXPECT_EQ(chosen("=eth1,nic0"), "eth1 nic0");
}

TEST(NicChoice, ACaretLeavesOutAndKeepsTheDefaultRuleForTheRest) {
  EXPECT_EQ(chosen("^eth"), "ib0 bond0 nic0");
  EXPECT_EQ(chosen("^=eth0"), "eth1 ib0 bond0 eth0.7 nic0");
  EXPECT_EQ(chosen("^nothing"), chosen(""));
  EXPECT_EQ(reason("^eth", "eth0"), "not used: excluded by IFNAME=^eth");
  EXPECT_EQ(reason("^eth", "lo"), "not used: loopback");
}

TEST(NicChoice, ANamedNicMayBeOfAnyKindButMustWork) {
  EXPECT_EQ(chosen("=lo"), "lo");
  EXPECT_EQ(chosen("dummy,docker,slave"), "docker0 dummy0 slave0");
  EXPECT_EQ(chosen("pulled,off,nic"), "nic0");
  EXPECT_EQ(reason("pulled", "pulled0"), "not used: no carrier");
}

TEST(NicChoice, AListThatMatchesNothingNamesItselfAndTheExistingNics) {
  EXPECT_EQ(error("foo,bar").substr(0, 66),
            "IFNAME=foo,bar matches no interface; there are: lo, eth0, eth1, et");
  error("=eth");
  for (const char* nameless : {"^", "=", "^=", ",", " ", ",,"}) {
    EXPECT_NE(error(nameless).find("holds no interface name"), std::string::npos) << nameless;
  }
}

TEST(NicChoice, AddressesOfADeviceActAsNics) {
  const std::vector<Nic> nics = choose("lo@127.0.1.1,lo@127.0.2.1/16,lo@127.0.1.1,nic");
  EXPECT_EQ(chosen("lo@127.0.1.1,lo@127.0.2.1/16,nic"), "nic0 lo@127.0.1.1 lo@127.0.2.1");
  ASSERT_EQ(nics.size(), host().size() + 2) << "a repeated address is one NIC";
  const Nic& first = nics[nics.size() - 2];
  ASSERT_EQ(first.addresses.size(), 1U);
  EXPECT_EQ(to_string(first.addresses[0]), "127.0.1.1");
  EXPECT_EQ(first.addresses[0].prefix_bits, 24);
  EXPECT_EQ(nics.back().addresses[0].prefix_bits, 16);
  EXPECT_EQ(chosen("eth0@10.0.0.1"), "eth0@10.0.0.1");
}

TEST(NicChoice, AnAddressThatIsNoneOfItsDeviceIsAnError) {
  EXPECT_EQ(error("lo@10.0.0.1"), "IFNAME=lo@10.0.0.1: 10.0.0.1 is no address of lo");
  EXPECT_EQ(error("eth7@10.0.0.1").substr(0, 40), "IFNAME=eth7@10.0.0.1: no interface eth7;");
  for (const char* nonsense :
       {"lo@", "@", "@127.0.0.1", "lo@127.0.0.1/33", "lo@127.0.0.1/x", "lo@127.0.0.1/",
        "lo@127.0.0", "lo@lo@127.0.0.1", "lo@127.0.0.1/-1"}) {
    error(nonsense);
  }
}

TEST(Address, ParsesItsOwnOutputAndNothingElse) {
  for (const char* text : {"10.1.2.3", "::1", "fe80::1", "fe80::1%lo"}) {
    const std::optional<Address> address = parse_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), text);
  }
  for (const char* text : {"", "10.1.2", "10.1.2.3.4", "10.1.2.300", "x", "fe80::1%",
                           "fe80::1%nope", "fe80::1%99999999999", "10.0.0.1 "}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
}

TEST(Address, KnowsAddressesThatStayOnALinkOrAHost) {
  EXPECT_TRUE(is_link_local(*parse_address("169.254.3.4")));
  EXPECT_TRUE(is_link_local(*parse_address("febf::1")));
  EXPECT_FALSE(is_link_local(*parse_address("fec0::1")));
  EXPECT_FALSE(is_link_local(*parse_address("10.0.0.1")));
  EXPECT_TRUE(is_loopback(*parse_address("127.9.9.9")));
  EXPECT_TRUE(is_loopback(*parse_address("::1")));
  EXPECT_FALSE(is_loopback(*parse_address("::2")));
}

}  // namespace
}  // namespace r2ccl
