// The description of a lab as a value: its hosts, NICs, rates and MTUs, and the faults that it can
// have.
//
// Host i is the namespace NAME-hi, its NICs are nic0, nic1, ... and mgmt. NIC k of every host is
// plugged into the switch (bridge) railk of the namespace NAME-fab; the switch port is called hink.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace r2ccl::tools {

struct LabNic {
  int64_t rate_bps = 0;  // bits a second in each direction; 0: not shaped
  int mtu = 1500;
  friend bool operator==(const LabNic&, const LabNic&) = default;
};

struct LabSpec {
  std::string name = "r2lab";
  std::vector<std::vector<LabNic>> hosts;  // hosts[i][k]: NIC k of host i
  LabNic mgmt{100'000'000, 1500};
  bool ipv6 = false;                 // IPv6 addresses only, on every network
  std::string congestion = "cubic";  // TCP congestion control inside the hosts
  int64_t burst_bytes = 0;           // shaper bucket; 0: 4 ms of the rate, at least 66,000
  int queue_ms = 10;                 // longest wait in a shaper's queue
  bool single_packets = false;       // no segmentation offload: loss takes packets, not 64 KB
  friend bool operator==(const LabSpec&, const LabSpec&) = default;

  int host_count() const { return static_cast<int>(hosts.size()); }
  int rail_count() const;  // the largest number of NICs that any host has
};

// The options of `lab up`.
struct LabShape {
  std::string name = "r2lab";
  int hosts = 0;
  int nics = 0;
  double rate_mbit = 0;
  int mtu = 1500;
  double mgmt_mbit = 100;
  bool ipv6 = false;
  std::string congestion = "cubic";
  int64_t burst_bytes = 0;
  int queue_ms = 10;
  bool single_packets = false;
  std::vector<std::string> nics_per_host;  // "4,4,2,1": host by host
  std::vector<std::string> rates;  // "250,250,100": NIC by NIC; "h1:nic2=25": one NIC of one host
  std::vector<std::string> mtus;   // the same for MTUs
};
// Refuses each name that could be a path or an option of another program.
Status check_lab_name(const std::string& name);
Result<LabSpec> make_lab_spec(const LabShape& shape);

// One network interface of one host; nic == kMgmt is the management interface.
struct LabPort {
  static constexpr int kMgmt = -1;
  int host = 0;
  int nic = 0;
  friend bool operator==(const LabPort&, const LabPort&) = default;
};
const LabNic& nic_of(const LabSpec& spec, LabPort port);
std::string device_name(LabPort port);                      // nic1, mgmt: the name on the host
std::string port_name(LabPort port);                        // h2n1, h2nm: the name on the switch
std::string rail_name(LabPort port);                        // rail1, railm
std::string address_of(const LabSpec& spec, LabPort port);  // without prefix length
std::string prefix_of(const LabSpec& spec, LabPort port);   // address/length
std::string mac_of(LabPort port);

// The subject of a fault: "h2 nic1", "h2 mgmt", "rail1" (the switch: this NIC of every host) or
// "mgmt". Consumes words from the front of `words`.
struct LabTarget {
  std::vector<LabPort> ports;
  bool whole_rail = false;
  std::string text;
};
Result<LabTarget> parse_target(const LabSpec& spec, std::vector<std::string>* words);
LabTarget target_of(LabPort port);

enum class FaultKind {
  down,     // the operator sets the interface down; on a rail: the switch is off, as pull
  pull,     // the cable is out: no carrier
  hole,     // a black hole: drops all packets in both directions, keeps the carrier
  hole_tx,  // drops all packets that the host sends
  hole_rx,  // drops all packets that are sent to the host
  slow,     // a lower rate in both directions
  lose,     // drops a share of the packets in both directions
};
struct LabFault {
  FaultKind kind = FaultKind::down;
  double amount = 0;      // slow: Mbit/s, or a share of the NIC's own rate; lose: percent
  bool relative = false;  // slow 10%
};
// Parses KIND [AMOUNT]. Requires that this is all of `words`.
Result<LabFault> parse_fault(const std::vector<std::string>& words);
std::string describe(const LabFault& fault);
// Returns the end of a sentence about the target: "is unplugged".
std::string effect_of(const LabFault& fault);

std::string to_json(const LabSpec& spec);
Result<LabSpec> lab_spec_from_json(const std::string& text);

// Parses "h3" or "3".
std::optional<int> parse_host(const LabSpec& spec, const std::string& word);

}  // namespace r2ccl::tools
