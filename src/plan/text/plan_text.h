// Plans as text, which comes back as the same value. People read it, and a plan that was changed by
// hand or made by another program can be proved (`r2ccl plan check`).
//
//   r2ccl-plan 1 collective all_reduce algorithm ring type float32 op sum ranks 2 root 0 count 5
//   rank 0 steps 4 scratch 0
//   0 send peer 1 source input:0+3
//   1 receive_reduce peer 1 source input:3+2 target output:3+2 operands own_first last_reduction
//   2 send peer 1 source output:3+2 after 1
//   3 receive peer 1 target output:0+3
//   rank 1 steps 4 scratch 0
//   ...
//
// The first line has the facts of the key that all ranks share. At its end stand those that differ
// from the default: "reproducible", if the plan must reduce in rank order; "hosts 0,0,1,1", the
// host of each rank; "view 1000/500", the rates of the hosts (plan/text/view_text.h);
// "memory_costs" and "network_costs", each with the seven numbers of plan/plan_costs.h. Then each
// rank has a block, in ascending order. Its first line gives the number of its steps and the
// elements of its scratch memory, and those of its wide memory if it has some
// ("wide 8"); then what its key has of its own: "in_place", and the counts and starts of unequal
// blocks, "counts 3,0,2", "starts 0,4,4", "received_counts 1,1,1", "received_starts 0,1,2". A
// region is BUFFER:OFFSET+COUNT, in elements. The words of a line stand in this order. Empty lines,
// and lines that begin with #, mean nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/holdings.h"
#include "plan/plan.h"

namespace r2ccl {

// Bounds of a text that is read. A plan takes at most eight times the memory of its text, besides
// a part that is proportional to the number of ranks. The checker keeps some blocks for each pair
// of ranks, so there are far fewer ranks than a job may have.
inline constexpr size_t kPlanTextBytesMax = 64 * 1024 * 1024;
inline constexpr int32_t kPlanTextRanksMax = 1024;
// Elements of a vector or of a block.
inline constexpr uint64_t kPlanTextCountMax = kBlockElementsMax - 1;
// Elements before the end of a region: the blocks of all ranks, one after another. Sums of a few
// such numbers do not overflow.
inline constexpr uint64_t kPlanTextPositionMax = kBlockElementsMax * kPlanTextRanksMax;

// The parts of all ranks; keys[r] is rank r's key, and plans[r] its part.
struct WholePlan {
  std::vector<PlanKey> keys;
  std::vector<RankPlan> plans;
  friend bool operator==(const WholePlan&, const WholePlan&) = default;
};

// Returns the plan of all ranks. Requires a key that every rank can have: without `received`, and
// with one `in_place` for all.
WholePlan make_whole_plan(const PlanKey& key, const PlanLimits& limits = kPlanLimits);

// Requires as many parts as ranks, in their order, and that all keys share the facts of the first
// line.
std::string print_plan(const WholePlan& plan);

// Returns the plan, which may break any rule of the checker but one: `after` names earlier steps.
// An error begins with "line N: ".
Result<WholePlan> parse_plan(std::string_view text);

}  // namespace r2ccl
