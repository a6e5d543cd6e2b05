#include "tools/admin/info.h"

#include <gtest/gtest.h>

#include <string_view>

namespace r2ccl::tools {
namespace {

TEST(Info, PrefersOurVariableAndFallsBackToNccls) {
  const auto both = [](const char* name) -> const char* {
    return std::string_view(name) == "R2CCL_SOCKET_IFNAME"  ? "nic"
           : std::string_view(name) == "NCCL_SOCKET_IFNAME" ? "eth"
                                                            : nullptr;
  };
  EXPECT_EQ(interface_settings(both).data.text, "nic");
  const auto nccl = [](const char* name) -> const char* {
    return std::string_view(name) == "NCCL_SOCKET_IFNAME" ? "eth" : nullptr;
  };
  EXPECT_EQ(interface_settings(nccl).data.text, "eth");
  EXPECT_EQ(interface_settings(nccl).data.variable, "NCCL_SOCKET_IFNAME");
  const auto none = [](const char*) -> const char* { return nullptr; };
  EXPECT_EQ(interface_settings(none).data.text, "");
}

TEST(Info, TellsOfEveryInterfaceWhyItIsOrIsNotUsed) {
  Nic nic;
  nic.name = "nic0";
  nic.kind = NicKind::veth;
  nic.up = nic.carrier = true;
  nic.mtu = 1500;
  nic.speed_mbps = 10000;
  nic.addresses = {*parse_address("10.1.2.3")};
  nic.addresses[0].prefix_bits = 24;
  Nic bridge;
  bridge.name = "docker0";
  bridge.kind = NicKind::bridge;
  const Result<std::vector<Nic>> nics = choose_nics({nic, bridge}, {});
  ASSERT_TRUE(nics.ok());
  EXPECT_EQ(describe_interfaces(nics.value(), {}),
            "interface  kind    state  MTU   speed       data              addresses\n"
            "nic0       veth    up     1500  10000 Mb/s  chosen: veth      10.1.2.3/24\n"
            "docker0    bridge  down   0     -           not used: bridge  -\n"
            "\n"
            "data NICs: 1 (R2CCL_SOCKET_IFNAME is not set: found by kind, carrier and address)\n"
            "control:   the data NICs and the interface that reaches the rendezvous "
            "(R2CCL_OOB_IFNAME is not set)\n");
}

}  // namespace
}  // namespace r2ccl::tools
