// r2ccl info: which interfaces are used, and why the others are not.
#pragma once

#include <string>
#include <vector>

#include "transport/nic_choice.h"

namespace r2ccl::tools {

// What the environment says about interfaces; unset is empty.
struct InterfaceSettings {
  NicFilter data;
  std::string control;  // R2CCL_OOB_IFNAME
};

// R2CCL_SOCKET_IFNAME, or else NCCL_SOCKET_IFNAME, as `get` (getenv, usually) knows them.
InterfaceSettings interface_settings(const char* (*get)(const char* name));

// The table of interfaces and the lines below it.
std::string describe_interfaces(const std::vector<Nic>& nics, const InterfaceSettings& settings);

}  // namespace r2ccl::tools
