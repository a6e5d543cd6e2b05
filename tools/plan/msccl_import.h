// Makes plans of algorithms in the XML of MSCCL (tools/plan/msccl_xml.h).
//
// A thread block runs its steps one after another, and waits for steps of other thread blocks. A
// plan needs less: a step comes after those that read what it writes, or write what it reads or
// writes, if the algorithm puts them in this order. Where it puts them in none, the plan has none
// either, and the checker finds the race. Between two ranks a plan has one sequence of messages, in
// the order of the rounds in which the receiver uses them, whatever their channels.
//
// Plans have no name for these, so that they are dropped: channels and thread blocks, which decide
// how many messages travel at a time; the protocol (Simple, LL, LL128), which decides how NCCL cuts
// them; the loop over pieces of a large vector, which changes no dependency; the range of sizes for
// which the algorithm is meant (minBytes, maxBytes).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "plan/text/plan_text.h"
#include "tools/plan/msccl_xml.h"

namespace r2ccl::tools {

// Returns the elements (of the vector, or of each block where the collective has blocks) for which
// each chunk has one. Other counts must be multiples of it.
uint64_t least_count(const MscclAlgorithm& algorithm);

// `key` gives the count, the type, the root and the hosts; the rest follows from the algorithm.
// The plan may be wrong: check_plan() tells. An error is of the algorithm, or of the count.
Result<WholePlan> import_msccl(const MscclAlgorithm& algorithm, PlanKey key);

}  // namespace r2ccl::tools
