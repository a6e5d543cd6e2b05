#include "sim/training/job_shape.h"

#include <array>
#include <cmath>
#include <string>

#include "sim/fluid/fluid_network.h"

namespace r2ccl::sim {
namespace {

// Llama 7B and 13B, Llama 2 70B, GPT-3 175B.
constexpr std::array<ModelShape, 4> kModels = {
    ModelShape{"7b", 6.7e9, 32, 4096, 1, 1}, ModelShape{"13b", 13e9, 40, 5120, 8, 1},
    ModelShape{"70b", 70e9, 80, 8192, 8, 2}, ModelShape{"175b", 175e9, 96, 12288, 8, 8}};

constexpr uint32_t kHostsMax = 4096;

bool is_positive(double value) {
  return std::isfinite(value) && value > 0;
}

bool is_time(double value) {
  return std::isfinite(value) && value >= 0;
}

}  // namespace

Result<ModelShape> model_named(std::string_view name) {
  for (const ModelShape& model : kModels) {
    if (model.name == name) return model;
  }
  return Status{Code::invalid_argument,
                "no model '" + std::string(name) + "'; there are 7b, 13b, 70b and 175b"};
}

Status check_gpu_cluster(const GpuCluster& cluster) {
  const auto bad = [](const char* what) { return Status{Code::invalid_argument, what}; };
  if (cluster.hosts == 0 || cluster.hosts > kHostsMax) return bad("a job has 1 to 4096 hosts");
  if (cluster.gpus == 0) return bad("a host has at least one GPU");
  if (cluster.nics == 0 || cluster.nics > kFluidNicsMax) return bad("a host has 1 to 64 NICs");
  if (!is_positive(cluster.nic_rate) || !is_positive(cluster.intra_rate) ||
      !is_positive(cluster.memory_rate)) {
    return bad("a rate is positive");
  }
  if (!is_time(cluster.latency_s) || !is_time(cluster.intra_latency_s)) {
    return bad("a latency must be 0 or more seconds");
  }
  if (!is_positive(cluster.gpu_flops)) return bad("a GPU computes at a positive rate");
  if (!is_positive(cluster.efficiency) || cluster.efficiency > 1) {
    return bad("the efficiency is above 0, and at most 1");
  }
  return {};
}

double intra_all_reduce_s(const GpuCluster& cluster, uint32_t gpus, double bytes) {
  const double steps = 2 * (gpus - 1.0);
  return steps / gpus * bytes / cluster.intra_rate + steps * cluster.intra_latency_s;
}

}  // namespace r2ccl::sim
