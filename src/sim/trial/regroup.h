// The ranks of a failed job that live go on in a smaller communicator, as a program does. Each
// excludes the ranks of its errors, and calls again until an AllReduce ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/cluster/cluster.h"
#include "sim/trial/end_check.h"

namespace r2ccl::sim {

// Lets them. A death of which a living rank hears nothing may take the `cutoff`. In half of the
// jobs, by the seed, one more rank dies meanwhile by `kill`. Returns an error; empty: none, or some
// ranks are cut off from each other and do not try.
std::string regroup(Cluster& cluster, const IsAlive& is_alive,
                    const std::function<void(int rank)>& kill, uint64_t seed, TimeNs cutoff);

}  // namespace r2ccl::sim
