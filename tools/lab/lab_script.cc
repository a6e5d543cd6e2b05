#include "tools/lab/lab_script.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace r2ccl::tools {
namespace {

// Room for one super-packet of 64 KB with its headers. With a smaller bucket the shaper would split
// super-packets, which costs more CPU time than the rest of the lab.
constexpr int64_t kBurstBytesMin = 66'000;

std::string tbf(const LabSpec& spec, const std::string& device, int64_t rate_bps) {
  int64_t burst = spec.burst_bytes;
  if (burst == 0) burst = std::max(kBurstBytesMin, rate_bps / 8 / 250);  // 4 ms
  return "qdisc replace dev " + device + " root tbf rate " + std::to_string(rate_bps) +
         "bit burst " + std::to_string(burst) + " latency " + std::to_string(spec.queue_ms) +
         "ms\n";
}

std::vector<LabPort> ports_of(const LabSpec& spec, int host) {
  std::vector<LabPort> ports;
  size_t nics = spec.hosts[static_cast<size_t>(host)].size();
  for (int nic = 0; nic < static_cast<int>(nics); ++nic) ports.push_back({host, nic});
  ports.push_back({host, LabPort::kMgmt});
  return ports;
}

int64_t slow_rate(const LabSpec& spec, LabPort port, const LabFault& fault) {
  if (!fault.relative) return std::llround(fault.amount * 1e6);
  return std::llround(static_cast<double>(nic_of(spec, port).rate_bps) * fault.amount / 100);
}

// Each direction and purpose has its own chain, so that faults of different kinds add up and a
// fault given twice replaces itself. The egress hook needs Linux 5.16.
std::string drop_rule(LabPort port, const std::string& purpose, const std::string& direction,
                      const std::string& condition) {
  std::string table = port_name(port), chain = purpose + "_" + direction;
  return "add table netdev " + table + "\nadd chain netdev " + table + " " + chain +
         " { type filter hook " + direction + " device " + table + " priority 0; }\n" +
         "flush chain netdev " + table + " " + chain + "\nadd rule netdev " + table + " " + chain +
         " " + condition + "drop\n";
}

std::string lose_condition(double percent) {
  return "numgen random mod 100000 < " + std::to_string(std::llround(percent * 1000)) + " ";
}

std::string address_add(const LabSpec& spec, LabPort port, const char* verb) {
  // nodad: a tentative address cannot be bound, for a second after the link is up.
  return std::string("addr ") + verb + " " + prefix_of(spec, port) + " dev " + device_name(port) +
         (spec.ipv6 ? " nodad" : "") + "\n";
}

}  // namespace

std::string host_namespace(const LabSpec& spec, int host) {
  return spec.name + "-h" + std::to_string(host);
}

std::string fabric_namespace(const LabSpec& spec) {
  return spec.name + "-fab";
}

LabScripts up_scripts(const LabSpec& spec) {
  LabScripts scripts;
  for (int rail = LabPort::kMgmt; rail < spec.rail_count(); ++rail) {
    std::string bridge = rail_name({0, rail});
    scripts.fabric_ip += "link add " + bridge + " type bridge forward_delay 0 mcast_snooping 0\n";
  }
  // Linux may let a port forward a second late if it has the same index as the device at its other
  // end (net/core/link_watch.c), which those of hosts never have.
  int index = 10'000;
  std::vector<int> rail_mtu(static_cast<size_t>(spec.rail_count() + 1), 0);
  for (int host = 0; host < spec.host_count(); ++host) {
    for (LabPort port : ports_of(spec, host)) {
      const LabNic& nic = nic_of(spec, port);
      std::string mtu = std::to_string(nic.mtu), name = port_name(port);
      scripts.root_ip += "link add " + name + " index " + std::to_string(index++) + " netns " +
                         fabric_namespace(spec) + " mtu " + mtu + " type veth peer name " +
                         device_name(port) + " netns " + host_namespace(spec, host) + " mtu " +
                         mtu + " address " + mac_of(port) + "\n";
      scripts.fabric_ip += "link set " + name + " master " + rail_name(port) + " up\n";
      if (nic.rate_bps > 0) scripts.fabric_tc += tbf(spec, name, nic.rate_bps);
      int& widest = rail_mtu[static_cast<size_t>(port.nic + 1)];
      widest = std::max(widest, nic.mtu);
    }
  }
  // A bridge takes its smallest port's MTU unless told otherwise; a switch does not.
  for (int rail = LabPort::kMgmt; rail < spec.rail_count(); ++rail) {
    int mtu = rail_mtu[static_cast<size_t>(rail + 1)];
    scripts.fabric_ip +=
        "link set " + rail_name({0, rail}) + " mtu " + std::to_string(mtu) + " up\n";
  }
  return scripts;
}

std::string host_ip_script(const LabSpec& spec, int host) {
  std::string script = "link set lo up\n";
  for (LabPort port : ports_of(spec, host)) {
    const std::string single = spec.single_packets ? " gso_max_segs 1" : "";
    script +=
        address_add(spec, port, "add") + "link set dev " + device_name(port) + single + " up\n";
  }
  return script;
}

std::string host_tc_script(const LabSpec& spec, int host) {
  std::string script;
  for (LabPort port : ports_of(spec, host)) {
    int64_t rate = nic_of(spec, port).rate_bps;
    if (rate > 0) script += tbf(spec, device_name(port), rate);
  }
  return script;
}

PortScripts fault_scripts(const LabSpec& spec, LabPort port, const LabFault& fault,
                          bool whole_rail) {
  PortScripts scripts;
  std::string name = port_name(port);
  switch (fault.kind) {
    case FaultKind::down:
      if (whole_rail) {
        scripts.fabric_ip = "link set " + name + " down\n";
      } else {
        scripts.host_ip = "link set " + device_name(port) + " down\n";
      }
      break;
    case FaultKind::pull:
      scripts.fabric_ip = "link set " + name + " down\n";
      break;
    case FaultKind::hole:
      scripts.fabric_ip = "link set " + name + " nomaster\n";
      break;
    case FaultKind::hole_tx:
      scripts.fabric_nft = drop_rule(port, "hole", "ingress", "");
      break;
    case FaultKind::hole_rx:
      scripts.fabric_nft = drop_rule(port, "hole", "egress", "");
      break;
    case FaultKind::slow: {
      int64_t rate = slow_rate(spec, port, fault);
      if (rate <= 0) break;  // a share of an unshaped NIC: the lab refused it earlier
      scripts.host_tc = tbf(spec, device_name(port), rate);
      scripts.fabric_tc = tbf(spec, name, rate);
      break;
    }
    case FaultKind::lose:
      for (const char* direction : {"ingress", "egress"}) {
        scripts.fabric_nft += drop_rule(port, "lose", direction, lose_condition(fault.amount));
      }
      break;
  }
  return scripts;
}

PortScripts fix_scripts(const LabSpec& spec, LabPort port) {
  PortScripts scripts = unhole_scripts(port);
  std::string name = port_name(port), device = device_name(port);
  scripts.fabric_nft = "add table netdev " + name + "\ndelete table netdev " + name + "\n";
  // The kernel drops an IPv6 address while its link is down; an operator would restore it.
  scripts.host_ip = "link set " + device + " up\n" + address_add(spec, port, "replace");
  if (int64_t rate = nic_of(spec, port).rate_bps; rate > 0) {
    scripts.host_tc = tbf(spec, device, rate);
    scripts.fabric_tc = tbf(spec, name, rate);
  } else {
    scripts.host_tc = "qdisc replace dev " + device + " root noqueue\n";
    scripts.fabric_tc = "qdisc replace dev " + name + " root noqueue\n";
  }
  return scripts;
}

PortScripts unhole_scripts(LabPort port) {
  PortScripts scripts;
  scripts.fabric_ip = "link set " + port_name(port) + " master " + rail_name(port) + " up\n";
  return scripts;
}

}  // namespace r2ccl::tools
