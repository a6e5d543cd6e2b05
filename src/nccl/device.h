// The NICs as NCCL's search for rings sees them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "transport/transport.h"

namespace r2ccl::nccl {

struct Device {
  std::string name;
  std::string nic;       // its connections prefer it; empty: none
  std::string pci_path;  // empty: it has none. NCCL reads from it which processors are near
  // Devices of the same guid and port share the bandwidth of one port.
  uint64_t guid = 0;
  int port = 0;
  int speed_mbps = 0;
};

// Describes the usable NICs, one by one or as one device. `sys`: the kernel's directory of NICs.
std::vector<Device> describe_devices(const std::vector<Nic>& nics, NcclDevices choice,
                                     const std::string& sys = "/sys/class/net");

}  // namespace r2ccl::nccl
