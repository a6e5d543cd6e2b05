// One host of a lab as the kernel sees it: namespaces for network, host name, mounts and System V
// IPC, kept alive by a holder process that only sleeps.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace r2ccl::tools {

// Whether this process may make namespaces; the error says what is missing.
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

// Moves the calling process, which must have one thread only, into the host that the holder keeps.
// The working directory stays.
Status enter_lab_host(pid_t holder);

// Writes /proc/sys/net/... of the calling process's network namespace.
Status write_sysctl(const std::string& name, const std::string& value);
// The network namespace of the fabric must stay silent: no addresses of its own.
Status silence_fabric(const std::string& netns_path);
// A namespace may only use an 'allowed' congestion control, and the list is the machine's. Adds
// the name where it is missing; the change outlives the lab, and grants nothing but a choice.
Status allow_congestion(const std::string& name);

// Every process whose network namespace is the one at this path.
std::vector<pid_t> processes_in(const std::string& netns_path);
bool is_in_namespace(pid_t pid, const std::string& netns_path);

}  // namespace r2ccl::tools
