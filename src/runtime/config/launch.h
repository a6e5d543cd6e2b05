// Derives this process's rank, the number of ranks and the rendezvous address from the variables
// that the launcher set.
#pragma once

#include <optional>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "runtime/config/config.h"
#include "runtime/config/host_port.h"

namespace r2ccl {

struct Launch {
  std::string launcher;  // "torchrun", "Open MPI", "MPICH", "Slurm"
  Rank rank;
  int32_t rank_count = 0;
  std::optional<int32_t> local_rank;   // among the ranks of this host, if the launcher gives it
  std::optional<HostPort> rendezvous;  // always set when rank_count > 1
  // Public, equal on all ranks of one run, and different for other runs as far as the launcher
  // tells them apart: see make_job_identity().
  std::string job_name;

  friend bool operator==(const Launch&, const Launch&) = default;
};

// Returns the settings of the first launcher whose variables are complete, in this order: RANK and
// WORLD_SIZE (torchrun and its imitators), Open MPI, MPICH and other PMI launchers, Slurm. The
// order is from the inside to the outside: each of these may run under a later one. Fails when RANK
// and WORLD_SIZE neither agree with another launcher nor name ranks within one of its ranks.
// `comm_id` is R2CCL_COMM_ID, which overrides every other rendezvous address; it may be empty.
Result<Launch> detect_launch(const GetEnv& get_env, const std::string& comm_id);

struct LaunchedRank {
  Rank rank;
  int32_t rank_count = 0;
  friend bool operator==(const LaunchedRank&, const LaunchedRank&) = default;
};
// Returns the rank by the rules of detect_launch(), which also needs a place to meet. None: no
// launcher has set one, or the variables contradict each other.
std::optional<LaunchedRank> find_launched_rank(const GetEnv& get_env);

// Returns the first host of a Slurm node list, for example "node[07,09-12],login".
Result<std::string> first_slurm_host(const std::string& node_list);

}  // namespace r2ccl
