// Which rank this process is, of how many, and where the ranks meet, from what the launcher left in
// the environment.
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
  std::optional<int32_t> local_rank;   // among the ranks of this host, when the launcher says
  std::optional<HostPort> rendezvous;  // always set when rank_count > 1
  // Public and equal on all ranks of one run, different for other runs as far as the launcher tells
  // them apart: see make_job_identity().
  std::string job_name;

  friend bool operator==(const Launch&, const Launch&) = default;
};

// The first launcher whose variables are complete wins, in this order: RANK and WORLD_SIZE
// (torchrun and everything that imitates it), Open MPI, MPICH and other PMI launchers, Slurm.
// That is from the inside to the outside: each of these may run under those that come later. An
// error: RANK and WORLD_SIZE can be neither what another launcher says nor ranks within one of its.
// `comm_id` is R2CCL_COMM_ID, which overrides every other place to meet; it may be empty.
Result<Launch> detect_launch(const GetEnv& get_env, const std::string& comm_id);

// The first host of a Slurm node list, "node[07,09-12],login" for example.
Result<std::string> first_slurm_host(const std::string& node_list);

}  // namespace r2ccl
