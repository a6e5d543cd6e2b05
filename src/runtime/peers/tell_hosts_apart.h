// Tells the hosts of a job apart where the ranks' info does not: machines that were installed from
// one image have one name, and copies of a running machine even one identity. Pure, and equal on
// all ranks, because it follows from the table that all of them have.
#pragma once

#include <string>
#include <vector>

#include "runtime/bootstrap/rank_info.h"

namespace r2ccl {

// Gives ranks whose NICs of one name have no common address identities of different hosts. Adds an
// address to the name of each host whose name is not its own. Returns a sentence for each of the
// two kinds that it found; it names the first two hosts.
std::vector<std::string> tell_hosts_apart(std::vector<RankInfo>& rank_table);

// Returns, in words, the NICs of both if none of the one is in a network with one of the other.
// They may still reach each other through a router. Empty: they have a network in common.
std::string networks_apart(const RankInfo& a, const RankInfo& b);

// Returns, in words, the first address of `b` if `a` has all addresses of `b` but link-local ones,
// so that `a` cannot dial `b`. Else it returns an empty text.
std::string same_addresses(const RankInfo& a, const RankInfo& b);

// Fails when a rank has no NIC but the loopback, and another host has others.
Status check_reachable(const std::vector<RankInfo>& rank_table);

}  // namespace r2ccl
