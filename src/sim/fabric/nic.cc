#include "sim/fabric/nic.h"

namespace r2ccl::sim {

Nic SimNic::describe() const {
  Nic nic;
  nic.name = options.name;
  nic.index = index;
  nic.hardware = {
      0x02, 0x77, 0, 0, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  nic.addresses = addresses;
  nic.mtu = options.mtu;
  nic.speed_mbps = options.speed_mbps;
  nic.up = up();
  nic.carrier = carrier();
  nic.usable = options.data && nic.carrier;
  if (options.loopback) {
    nic.reason = "loopback";
  } else if (!options.data) {
    nic.reason = "not a data NIC";
  } else if (!nic.up) {
    nic.reason = "down";
  } else {
    nic.reason = nic.carrier ? "up, with carrier" : "no carrier";
  }
  return nic;
}

}  // namespace r2ccl::sim
