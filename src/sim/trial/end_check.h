// The state of a simulated job after its faults: paths that are back, plans that are equal, and
// views of whole NICs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"

namespace r2ccl::sim {

std::string describe(const Verdict& verdict);

using IsAlive = std::function<bool(int rank)>;

// Returns the paths between living ranks that are not up, in words.
std::string paths_not_up(Cluster& cluster, const IsAlive& is_alive);
// Returns whether no rank has anything to agree on, and all plans follow whole NICs.
bool views_whole(Cluster& cluster);
// Returns the difference between two ranks that have begun as many collectives; empty: none. The
// chain of a rank's calls holds the hash of each plan, and so each view.
std::string differing_plans(Cluster& cluster);
// Returns the verdicts that one rank has and rank 0 has not, or the reverse, in words.
std::vector<std::string> differing_verdicts(Cluster& cluster);

}  // namespace r2ccl::sim
