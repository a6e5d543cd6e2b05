#include "sim/training/collective_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/cost_model.h"
#include "plan/plan.h"
#include "sim/fluid/fluid.h"

namespace r2ccl::sim {
namespace {

// The costs by which the planner chooses, as this network has them.
PlanCosts costs_of(const GpuCluster& cluster) {
  const auto whole = [](double value) { return static_cast<uint64_t>(std::llround(value)); };
  PlanCosts costs;
  DomainCosts& network = costs.network;
  network.hop_ns = network.leader_hop_ns = whole(cluster.latency_s * 1e9);
  network.message_ns = network.leader_message_ns = 0;
  network.kib_ps = network.fan_kib_ps = network.leader_kib_ps =
      std::max<uint64_t>(whole(1024e12 / (cluster.nic_rate * cluster.nics)), 1);
  return bounded(costs);
}

}  // namespace

Result<double> CollectiveTimes::all_reduce(uint64_t bytes, LiveNics live, PlanFor plan_for) {
  if (live.size() < 2 || bytes == 0) return 0.0;
  // On a flat fabric the order of the hosts does not matter.
  std::ranges::sort(live);
  if (live.front() == 0) return std::numeric_limits<double>::infinity();
  if (live.front() == live.back() || live.size() > kViewHostsMax) plan_for = PlanFor::healthy;
  const std::tuple<uint64_t, LiveNics, PlanFor> key(bytes, live, plan_for);
  const auto known = times_.find(key);
  if (known != times_.end()) return known->second;
  const Result<double> time = simulate(bytes, live, plan_for);
  if (time.ok()) times_.emplace(key, time.value());
  return time;
}

Result<double> CollectiveTimes::simulate(uint64_t bytes, const LiveNics& live,
                                         PlanFor plan_for) const {
  FluidFabric fabric;
  fabric.nics = cluster_.nics;
  fabric.nic_rate = cluster_.nic_rate;
  fabric.latency_s = cluster_.latency_s;
  for (const uint32_t nics : live) {
    HostRates rates(nics);
    rates.resize(cluster_.nics, NicRate{.send = 0, .receive = 0});
    fabric.rates.push_back(std::move(rates));
  }
  PlanKey key;
  key.rank_count = static_cast<int32_t>(live.size());
  key.count = std::max<uint64_t>(bytes / size_of(key.type), 1);
  key.costs = costs_of(cluster_);
  if (plan_for == PlanFor::view) {
    Result<View> view = View::of(without_rails(fabric.rates));
    R2CCL_RETURN_IF_ERROR(view.status());
    key.view = std::move(view.value());
  }
  const Result<FluidPlan> plan = FluidPlan::of(key);
  R2CCL_RETURN_IF_ERROR(plan.status());
  const Result<FluidTime> time = fluid_time(plan.value(), {}, fabric);
  R2CCL_RETURN_IF_ERROR(time.status());
  return time.value().time_s;
}

}  // namespace r2ccl::sim
