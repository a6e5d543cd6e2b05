// The plans of all ranks of a collective, small enough for a hundred million steps.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "sim/fluid/compact_plan.h"

namespace r2ccl::sim {

inline constexpr uint64_t kFluidMemoryMax = uint64_t{4} << 30;

class FluidPlan {
 public:
  // Builds the part of each rank, on all processors. Fails when the simulation of the whole would
  // take more than `memory_max` bytes.
  static Result<FluidPlan> of(const PlanKey& key, const PlanLimits& limits = kPlanLimits,
                              uint64_t memory_max = kFluidMemoryMax);
  // Takes the parts from a function, which several threads call at a time. Fails when a message has
  // not the same elements at both of its ends.
  using PartOf = std::function<RankPlan(Rank)>;
  static Result<FluidPlan> of(int32_t ranks, uint64_t element_bytes, const PartOf& part_of,
                              uint64_t memory_max = kFluidMemoryMax);

  const std::vector<CompactPlan>& ranks() const { return ranks_; }
  uint64_t element_bytes() const { return element_bytes_; }
  // Returns the bytes of memory of a simulation, about.
  uint64_t memory() const { return memory_; }
  // Returns the number of messages from one rank to another.
  uint64_t messages() const { return messages_; }

 private:
  std::vector<CompactPlan> ranks_;
  uint64_t element_bytes_ = 1;
  uint64_t memory_ = 0;
  uint64_t messages_ = 0;
};

}  // namespace r2ccl::sim
