// `r2ccl sim training`: the goodput of a training job whose NICs fail, by several strategies.
#pragma once

#include "sim/training/failures.h"
#include "tools/simulate/sim_cluster_options.h"

namespace r2ccl::tools {

struct TrainingOptions {
  ClusterOptions hosts;
  int pipeline = 0;  // 0: the model's, but not more than there are hosts
  sim::TrainingJob job;
  std::string bucket = "256M";
  bool no_overlap = false;
  uint32_t failures = 1;
  double mtbf_hours = 0;  // 0: `failures` at the begin
  double repair_hours = 4;
  double duration_hours = 24;
  uint32_t patterns = 1;
  uint64_t seed = 1;
  sim::FailureCosts costs;
  double stall_ms = 30;
  double checkpoint_minutes = 30;
  std::string svg_path;
};

// Returns an error that names the value to change.
Result<sim::TrainingJob> training_job_of(const TrainingOptions& options);
Status check_failures(const TrainingOptions& options);

void add_sim_training(CLI::App* sim, Action* action);

}  // namespace r2ccl::tools
