// Programs inside a lab: one in one host, or a job with ranks on every host at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab.h"

namespace r2ccl::tools {

struct LabJob {
  std::vector<std::string> argv;
  int procs_per_host = 1;
  int master_port = 29500;
  bool prefix_lines = false;  // put "hI: " (or "hI.LOCAL_RANK: ") before every line of output
};

// Replaces this process by the program, inside the host. Returns only on error.
Status run_on_host(const Lab& lab, int host, const std::vector<std::string>& argv);

// Runs the program once a rank with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT and HOST set, and standard input closed; hands SIGINT and SIGTERM on. Returns the
// worst exit status (128 + signal number for a rank that a signal ended).
Result<int> run_on_all(const Lab& lab, const LabJob& job);

// Starts `body` in a child process inside the host, in a process group of its own, so that a signal
// to the group reaches also what the body starts; it dies with us. `body` returns the exit status.
Result<pid_t> spawn_in_host(const Lab& lab, int host, const std::function<int()>& body);

}  // namespace r2ccl::tools
