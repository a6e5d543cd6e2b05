// `r2ccl sim serving`: the latency of a language model's tokens when NICs fail, by several
// strategies.
#pragma once

#include "sim/training/serving.h"
#include "tools/simulate/sim_cluster_options.h"

namespace r2ccl::tools {

struct ServingOptions {
  ServingOptions() {
    hosts.model = "70b";
    hosts.cluster.hosts = 2;
  }
  ClusterOptions hosts;
  sim::ServingJob job;
  double fail_at_s = -1;  // below 0: half of the duration
  sim::ServingCosts costs;
  double stall_ms = 30;
  std::string svg_path;
};

// Returns an error that names the value to change.
Result<sim::ServingJob> serving_job_of(const ServingOptions& options);

void add_sim_serving(CLI::App* sim, Action* action);

}  // namespace r2ccl::tools
