// Proves a whole plan, all ranks together, under the execution rules of plan.h, for every order in
// which ready steps run and messages arrive. It shares no code with the builders.
//
//  * Shape: `after` names earlier steps; regions lie in their buffers; nothing writes an input that
//    is not also the output; element i stays element i.
//  * Matching: the i-th send from a to b and the i-th receive of b from a have the same elements.
//  * Order: if two steps of a rank touch the same memory and one of them writes, one comes after
//    the other by `after`. So a send is acknowledged before its source is overwritten, and the bits
//    do not depend on arrival.
//  * Progress: no deadlock even when a send waits for its receive to be posted (a receive_reduce is
//    posted when it has a staging slot), each step queue carries one message at a time, and there
//    is one staging slot. More resources only remove constraints, and a plan that cannot block
//    under more constraints cannot block under fewer.
//  * Values, by symbolic execution: no step reads an undefined value; every output element is the
//    same expression on every rank, in which every input occurs exactly once; last_reduction stands
//    exactly where an expression becomes complete. For a barrier: no rank ends before all began.
//
// Cost: about linear in steps and dependencies, plus p bits per distinct partial result.
#pragma once

#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace r2ccl {

// Checks a plan. `plans[r]` is rank r's part; in_place[r] replaces key.in_place, which may differ
// between ranks. The error names the wrong step.
Status check_plan(const PlanKey& key, const std::vector<RankPlan>& plans,
                  const std::vector<bool>& in_place);

}  // namespace r2ccl
