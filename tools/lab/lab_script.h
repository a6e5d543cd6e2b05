// The commands that make, break and repair a lab, as texts for `ip -batch`, `tc -batch` and `nft
// -f`. They are pure functions of the description, so tests need no privileges. One batch for many
// objects makes a lab of 4 hosts in well under a second.
#pragma once

#include <string>

#include "tools/lab/lab_spec.h"

namespace r2ccl::tools {

std::string host_namespace(const LabSpec& spec, int host);
std::string fabric_namespace(const LabSpec& spec);

struct LabScripts {
  std::string root_ip;    // run outside: namespaces and veth pairs
  std::string fabric_ip;  // run in the fabric: switches and ports
  std::string fabric_tc;
};
LabScripts up_scripts(const LabSpec& spec);
std::string host_ip_script(const LabSpec& spec, int host);
std::string host_tc_script(const LabSpec& spec, int host);

// The effect of a fault or its repair on one port. Empty texts are not run.
struct PortScripts {
  std::string host_ip, host_tc;  // run in the host's namespace
  std::string fabric_ip, fabric_tc, fabric_nft;
};
PortScripts fault_scripts(const LabSpec& spec, LabPort port, const LabFault& fault,
                          bool whole_rail);
// Undoes every fault of the port. The text for nft deletes a table that it first makes sure exists.
PortScripts fix_scripts(const LabSpec& spec, LabPort port);
// Undoes a black hole only: the fast repair for `pause`.
PortScripts unhole_scripts(LabPort port);

}  // namespace r2ccl::tools
