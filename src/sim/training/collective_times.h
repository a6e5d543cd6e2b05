// The times of AllReduces between hosts, by the fluid simulator. Each host is one node whose NICs
// carry the bytes of all its GPUs: on a flat fabric the GPUs' own groups take the same time
// together.
//
// Plans for views have flows between all pairs of hosts, and take minutes to simulate on many
// hosts. So a group of more than kViewHostsMax hosts has the healthy plan, which takes longer than
// a good plan for the view.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "base/status.h"
#include "sim/training/job_shape.h"

namespace r2ccl::sim {

// The plan that the library makes for the view, or that of the healthy network, balanced over the
// NICs that are alive.
enum class PlanFor : uint8_t { view, healthy };

inline constexpr size_t kViewHostsMax = 32;

class CollectiveTimes {
 public:
  // Requires check_gpu_cluster().
  explicit CollectiveTimes(const GpuCluster& cluster) : cluster_(cluster) {}

  // Returns the seconds of an AllReduce of so many bytes of each host. Infinite where a host has no
  // NIC. Simulates each size and set of losses once.
  Result<double> all_reduce(uint64_t bytes, LiveNics live, PlanFor plan_for);
  size_t simulated() const { return times_.size(); }

 private:
  Result<double> simulate(uint64_t bytes, const LiveNics& live, PlanFor plan_for) const;

  const GpuCluster cluster_;
  std::map<std::tuple<uint64_t, LiveNics, PlanFor>, double> times_;
};

}  // namespace r2ccl::sim
