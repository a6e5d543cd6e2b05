// The options that `r2ccl sim training` and `r2ccl sim serving` share: the model and the hosts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/training/job_shape.h"
#include "tools/common/command.h"

namespace r2ccl::tools {

struct ClusterOptions {
  std::string model = "7b";
  sim::GpuCluster cluster;
  std::string nic_rate = "400G";
  std::string intra_rate = "3600G";
  double latency_us = 5;
  double teraflops = 989;
  std::string json_path;
};

void add_cluster_options(CLI::App* command, ClusterOptions& options);
// Returns an error that names the option to change.
Result<sim::GpuCluster> cluster_of(const ClusterOptions& options);
// Takes options and their values in seconds, the costs of a failure. Returns an error that names
// the first one that is no time.
Status check_costs(const std::vector<std::pair<const char*, double>>& costs);
nlohmann::json cluster_json(const sim::ModelShape& model, const sim::GpuCluster& cluster);
std::string cluster_text(const sim::ModelShape& model, const sim::GpuCluster& cluster);
// Returns the number by a format of printf.
std::string in_digits(const char* format, double value);

struct Bar {
  std::string name;
  double length = 0;  // from 0 to 1
  std::string value;
};
std::string draw_bars(const std::string& title, const std::vector<Bar>& bars);

}  // namespace r2ccl::tools
