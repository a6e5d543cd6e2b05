// The steps of a ring AllReduce among a group; ring.cc describes it. Private to this folder.
#pragma once

#include "plan/group.h"
#include "plan/limits.h"
#include "plan/plan_builder.h"

namespace r2ccl {

class Ring {
 public:
  Ring(const GroupReduction& what, const PlanLimits& limits, PlanBuilder& plan);

  // Returns the number of steps of each half.
  uint64_t steps() const { return size_ - 1; }
  // Add step k of the reduce-scatter, and of the all-gather.
  void reduce_step(uint64_t k);
  void gather_step(uint64_t k);

 private:
  // Returns block `index` modulo the number of ranks.
  Region block(uint64_t index, Buffer buffer) const;

  PlanBuilder& plan_;
  const uint64_t size_;
  const uint64_t self_;  // position
  const Rank next_;
  const Rank previous_;
  const Region partial_;
  const uint64_t segment_;
};

// Returns the elements in a segment of a ring over `count` elements.
uint64_t ring_segment(uint64_t count, uint64_t ranks, DataType type, const PlanLimits& limits);

}  // namespace r2ccl
