// The paths of a rank to the other ranks of its communicator, and the verdicts that concern them.
#pragma once

#include <cstddef>
#include <vector>

#include "protocol/diagnosis/fault_localiser.h"
#include "runtime/admin/link_health.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

// By peer, and in the order of the link's paths. The list has the same paths for the whole life of
// the rank, but for relay paths: each joins it at its first connection.
std::vector<PathInfo> path_infos(RankRuntime& rank);

// Returns whether the verdict is on a host, or a process, of this communicator.
bool concerns(RankRuntime& rank, const Verdict& verdict);
// Returns the places of those in the job's list.
std::vector<size_t> verdicts_of(RankRuntime& rank);
// Requires that there is a verdict at this place. The ranks are those of the communicator.
VerdictInfo verdict_info(RankRuntime& rank, size_t place);

}  // namespace r2ccl
