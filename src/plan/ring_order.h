// The order of hosts around a ring. Private to this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace r2ccl {

// Returns the hosts of a view in an order in which the least bandwidth between neighbours is as
// large as possible, where NICs reach only their own rail. Hosts that have lost different rails
// share few, so a host that has both stands between them: R2CCL's re-ranking with bridges (arXiv
// 2512.25059). It is the bottleneck travelling-salesman problem: exact for few hosts, by exchanges
// (2-opt, Croes 1958) for more. Keeps the order of the numbers where nothing is better.
std::vector<uint32_t> ring_order(const View& view, size_t hosts);

// Returns that order of the hosts of a call.
std::vector<uint32_t> ring_order(const PlanKey& key);
// Returns all ranks of a call, host by host in that order.
std::vector<Rank> ranks_in_ring_order(const PlanKey& key);

// Returns whether any two hosts have a rail in common, in both directions.
bool all_share_rails(const View& view);

// Returns whether at least two hosts have rails of unequal rates, each by itself.
bool rails_differ(const View& view);

// Returns what a host can send to another one on the rails that both have, in 1/1000 of a NIC.
uint64_t shared_rate(const HostRates& from, const HostRates& to);

}  // namespace r2ccl
