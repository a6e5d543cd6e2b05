// The floor of an AllReduce on rails, where NIC k reaches only NIC k of other hosts.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace r2ccl {

// Returns a time that no AllReduce of one element takes less than, where a NIC of rate 1 sends or
// receives one element in the time 1. Requires at least two hosts.
//
// Give each NIC a price in each direction. By the argument of docs/schedules.md all hosts but one
// send a message of each element before the first of them has the sum, and all but the same one
// receive a message afterwards. So the NICs are paid at least the price of the cheapest such
// messages, and in a time T they earn T times the sum of their rates times their prices at most.
// The quotient is a floor for any prices. Good ones are found by raising those of busy NICs: the
// dual of a fractional packing (Garg, Koenemann 1998).
double rails_floor(const std::vector<HostRates>& hosts);

}  // namespace r2ccl
