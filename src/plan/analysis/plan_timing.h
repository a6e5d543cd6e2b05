// When each step of a plan runs, by the costs of its key, on an ideal fabric: each host sends one
// message at a time and receives one at a time, and so does each rank in the memory of its host. A
// receiver can use a message one hop after its last byte. Steps of a rank take turns in the order
// of its list (list scheduling). A bubble in a plan shows here without any network.
//
// The rates of a view slow its hosts down; the costs are those of the fastest host. The fluid
// simulator, in which messages share links, is more exact.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace r2ccl {

struct StepTime {
  // The first byte of a message leaves or arrives, then the last one. A copy takes no time.
  double start_ns = 0;
  double moved_ns = 0;
  // The step is complete: a large send is acknowledged, a reduction is done.
  double end_ns = 0;
};

struct PlanTimes {
  std::vector<std::vector<StepTime>> steps;  // by rank and step
  double end_ns = 0;                         // when the last step ends
};

// Requires the plan of all ranks, which the checker has proved.
PlanTimes plan_times(const PlanKey& key, const std::vector<RankPlan>& plans);

}  // namespace r2ccl
