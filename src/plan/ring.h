// The steps of a ring AllReduce among a group; ring.cc describes it. Private to this folder.
#pragma once

#include "plan/group.h"
#include "plan/limits.h"
#include "plan/plan_builder.h"

namespace r2ccl {

class Ring {
 public:
  // `segment`: elements.
  Ring(const GroupReduction& what, uint64_t segment, PlanBuilder& plan);

  // Returns the number of steps of each half.
  uint64_t steps() const { return size_ - 1; }
  // Returns the number of pieces of each step.
  uint64_t pieces() const { return blocks_.pieces(); }
  // Add one piece of step k of the reduce-scatter, and of the all-gather.
  void reduce_step(uint64_t k, uint64_t piece);
  // The same where this rank's partial result of the piece that it reduces lies in `own`.
  void reduce_step(uint64_t k, uint64_t piece, const Region& own);
  void gather_step(uint64_t k, uint64_t piece);

 private:
  PlanBuilder& plan_;
  const uint64_t size_;
  const uint64_t self_;  // position
  const Rank next_;
  const Rank previous_;
  const Buffer partial_;  // place of this rank's partial result
  const Blocks blocks_;
};

}  // namespace r2ccl
