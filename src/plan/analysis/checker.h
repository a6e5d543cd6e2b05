// Proves a whole plan, all ranks together, under the execution rules of plan.h, for every order in
// which ready steps run and messages arrive. It shares no code with the
// builders but the meaning of the collectives (plan/holdings.h).
//
//  * Shape: `after` names earlier steps; regions lie in their buffers; nothing writes an input that
//    is not also the output.
//  * Matching: the i-th send from a to b and the i-th receive of b from a have as many elements.
//  * Order: if two steps of a rank touch the same memory and one of them writes, one comes after
//    the other by `after`. So a send is acknowledged before its source is overwritten, and the bits
//    do not depend on arrival.
//  * Progress: no deadlock even when a send waits for its receive to be posted (a receive_reduce is
//    posted when it has a staging slot), each step queue carries one message at a time, and there
//    is one staging slot. More resources only remove constraints, and a plan that cannot block
//    under more constraints cannot block under fewer.
//  * Values, by symbolic execution: no step reads an undefined value, and only values of the same
//    element are reduced. Every output has what plan/holdings.h says: an input, or a reduction in
//    which every input occurs exactly once, and in the same order on every rank. last_reduction
//    stands exactly where an expression becomes complete. For a barrier: no rank ends before all
//    began. A key that is `reproducible` demands that each reduction of floating-point elements is
//    ((x0 + x1) + x2) + ... in the order of the ranks, and of 16-bit elements rounded only once.
//  * Rounding, in reductions whose partial results have a wide form: nothing is sent or returned
//    that is not rounded, and no rank adds to a partial result that it has rounded and not sent.
//
// Cost: about linear in steps and dependencies, plus p bits per distinct partial result.
#pragma once

#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace r2ccl {

// Checks a plan. keys[r] is rank r's key, and plans[r] its part. The error names the wrong step.
Status check_plan(const std::vector<PlanKey>& keys, const std::vector<RankPlan>& plans);

}  // namespace r2ccl
