// A NIC of this host as the report shows it.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "schema/field.h"

namespace r2ccl {

struct ShownNic {
  std::string name;
  bool up = false;
  bool drained = false;
  uint32_t mtu = 0;
  uint64_t speed_mbps = 0;
  uint64_t sent = 0;  // over all paths of the NIC
  uint64_t received = 0;
};

namespace schema {

inline constexpr std::tuple kNicFields{
    Field("name", &ShownNic::name, "The interface's name."),
    Field("up", &ShownNic::up, "Whether it is up and has carrier.")
        .metric({"r2ccl_nic_up", "1: the NIC is up and has carrier."}),
    Field("drained", &ShownNic::drained, "Whether an operator took it [out of service](drain.md).")
        .metric({"r2ccl_nic_drained", "1: an operator took the NIC out of service."}),
    Field("mtu", &ShownNic::mtu, "As the kernel says."),
    Field("speed_mbps", &ShownNic::speed_mbps, "As the kernel says; 0: unknown.")
        .metric({"r2ccl_nic_speed_bytes_per_second", "The NIC's speed, as the kernel says.",
                 1e6 / 8, "speed_mbps"}),
    Field("tx_bytes", &ShownNic::sent, "Sent over data connections of the NIC.")
        .metric("r2ccl_nic_transmit_bytes_total"),
    Field("rx_bytes", &ShownNic::received, "Received over data connections of the NIC.")
        .metric("r2ccl_nic_receive_bytes_total"),
};

}  // namespace schema
}  // namespace r2ccl
