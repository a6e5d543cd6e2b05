// The kernel's state of one simulated machine: its NICs and the listener on each port. Processes
// (SimHost) come and go on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/fabric/nic.h"

namespace r2ccl::sim {

class SimHost;
class SimListener;

struct Machine {
  std::string name;
  uint32_t number = 0;
  std::vector<std::unique_ptr<SimNic>> nics;  // in kernel order, loopback first
  std::vector<SimListener*> listeners;
  std::vector<SimHost*> processes;
  uint16_t next_port = 32768;

  uint16_t take_port() {
    const uint16_t port = next_port;
    next_port = next_port == 60999 ? uint16_t{32768} : static_cast<uint16_t>(next_port + 1);
    return port;
  }
  // Returns the listener for a connection to `local` that arrives on `nic`; null: refused.
  SimListener* find_listener(const Endpoint& local, const SimNic& nic) const;
  SimNic* nic_named(const std::string& nic_name) const;
  SimNic* nic_with(const Address& address) const;
};

}  // namespace r2ccl::sim
