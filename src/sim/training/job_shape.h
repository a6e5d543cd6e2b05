// The shape of a training or serving job: its model, and the hosts that it runs on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace r2ccl::sim {

// A transformer. Weights, activations and gradients have 2 bytes an element.
struct ModelShape {
  std::string_view name;
  double parameters = 0;
  uint32_t layers = 0;
  uint32_t hidden = 0;
  uint32_t tensor = 1;    // GPUs of a host that share each layer
  uint32_t pipeline = 1;  // hosts that share the layers
};

inline constexpr double kElementBytes = 2;

// Returns 7b, 13b, 70b or 175b, or an error that lists them.
Result<ModelShape> model_named(std::string_view name);

// Rates are in bytes a second, for each direction.
struct GpuCluster {
  uint32_t hosts = 4;
  uint32_t gpus = 8;  // of each host
  uint32_t nics = 8;  // of each host
  double nic_rate = 50e9;
  double latency_s = 5e-6;
  double intra_rate = 450e9;  // of each GPU within its host
  double intra_latency_s = 1e-6;
  double gpu_flops = 989e12;
  double efficiency = 0.4;       // the share of these that a model gets
  double memory_rate = 3.35e12;  // of each GPU

  double flops() const { return gpu_flops * efficiency; }
};

// Returns an error that names the value which no cluster has.
Status check_gpu_cluster(const GpuCluster& cluster);

// The NICs of each host that are alive.
using LiveNics = std::vector<uint32_t>;

// Returns the time of a ring AllReduce among GPUs of one host.
double intra_all_reduce_s(const GpuCluster& cluster, uint32_t gpus, double bytes);

}  // namespace r2ccl::sim
