// r2ccl info: the interfaces that the library uses, and the reason why it does not use the others.
#pragma once

#include <string>
#include <vector>

#include "transport/nic_choice.h"

namespace r2ccl::tools {

// The interfaces that the environment names; unset is empty.
struct InterfaceSettings {
  NicFilter data;
  std::string control;  // R2CCL_OOB_IFNAME
};

// Returns the value of R2CCL_SOCKET_IFNAME, or else of NCCL_SOCKET_IFNAME. `get` is usually getenv.
InterfaceSettings interface_settings(const char* (*get)(const char* name));

// Returns the table of interfaces and the lines below it.
std::string describe_interfaces(const std::vector<Nic>& nics, const InterfaceSettings& settings);

}  // namespace r2ccl::tools
