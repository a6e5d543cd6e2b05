// One host of a lab as the kernel sees it: namespaces for network, host name, mounts and System V
// IPC, kept alive by a holder process that only sleeps.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace r2ccl::tools {

// Returns whether this process may make namespaces; the error names the missing privilege.
Status may_make_namespaces();

struct LabHostSettings {
  std::string netns_path;  // /run/netns/NAME: exists already
  std::string host_name;
  std::string hosts_file;  // shown inside as /etc/hosts
  std::string congestion;
  bool ipv6 = false;
};
// Starts the holder and returns its process id once the host is ready.
Result<pid_t> start_lab_host(const LabHostSettings& settings);

// Moves the calling process into the host that the holder keeps. Requires a process with one
// thread. The working directory stays.
Status enter_lab_host(pid_t holder);

// Writes /proc/sys/net/... of the calling process's network namespace.
Status write_sysctl(const std::string& name, const std::string& value);
// Silences the network namespace of the fabric: it must have no addresses of its own.
Status silence_fabric(const std::string& netns_path);
// Adds `name` to the machine's list of 'allowed' congestion controls if it is missing: a namespace
// may use only those. The change outlives the lab, and grants nothing but a choice.
Status allow_congestion(const std::string& name);

// Returns every process whose network namespace is the one at this path.
std::vector<pid_t> processes_in(const std::string& netns_path);
bool is_in_namespace(pid_t pid, const std::string& netns_path);

}  // namespace r2ccl::tools
