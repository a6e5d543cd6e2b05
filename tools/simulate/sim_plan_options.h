// The command line of `r2ccl sim plan`, and the values that it means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "sim/fluid/fluid.h"

namespace r2ccl::tools {

inline constexpr int kSimRanksMax = 4096;

struct SimPlanOptions {
  std::string collective;
  std::string algorithm = "auto";
  int hosts = 0;
  int ranks_per_host = 1;
  int nics = 1;
  std::string nic_rate = "50G";
  std::string bytes = "1G";
  int root = 0;
  std::string loss;
  std::string view;
  bool healthy_plan = false;
  std::string fabric = "flat";
  double oversubscription = 1;
  double latency_us = 2;
  std::string intra_rate = "3600G";
  double intra_latency_us = 1;
  double message_us = 0;
  std::vector<std::string> failures;
  double detection_ms = 10;
  std::string segment = "256K";
  int window = 0;   // 0: the library's
  int staging = 0;  // 0: the library's
  std::string memory = "4G";
  std::string json_path;
  std::string svg_path;
};

// A simulation as values.
struct SimPlan {
  PlanKey key;  // with the view that the plan is made for
  View view;    // of the network
  PlanLimits limits;
  sim::FluidFabric fabric;
  sim::FluidOptions options;
  uint64_t memory_max = 0;
};

// Returns an error that names the option to change.
Result<SimPlan> sim_plan_of(const SimPlanOptions& options);

}  // namespace r2ccl::tools
