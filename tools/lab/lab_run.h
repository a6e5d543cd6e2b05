// Runs programs inside a lab: one in one host, or a job with ranks on every host at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/common/rank_group.h"
#include "tools/lab/lab.h"

namespace r2ccl::tools {

struct LabJob {
  std::vector<std::string> argv;
  int procs_per_host = 1;
  int master_port = 29500;
  bool prefix_lines = false;  // put "hI: " (or "hI.LOCAL_RANK: ") before every line of output
};

// Replaces this process by the program, inside the host. Returns only on error.
Status run_on_host(const Lab& lab, int host, const std::vector<std::string>& argv);

// Runs the program once for each rank, with set_rank_environment's variables and HOST set, and
// standard input closed. Forwards SIGINT and SIGTERM. Returns the worst exit status (128 + signal
// number for a rank that a signal ended).
Result<int> run_on_all(const Lab& lab, const LabJob& job);

// The place of one rank of a job.
struct RankPlace {
  int host = 0;
  int hosts = 1;
  int local = 0;
  int procs_per_host = 1;
  std::string master_addr;
  int master_port = 29500;
};
// Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun
// does.
void set_rank_environment(const RankPlace& place);
// Runs in the child that becomes this rank: enters the host, sets the variables, runs `body`.
int run_rank_in_lab(const Lab& lab, const RankPlace& place, const std::function<int()>& body);

}  // namespace r2ccl::tools
