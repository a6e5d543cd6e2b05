// Decides which NIC of one rank talks to which NIC of another. Pure. Both ends compute the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/bootstrap/rank_info.h"
#include "runtime/link/path.h"

namespace r2ccl {

struct NicPair {
  NicId lower;   // index into the NIC table of the lower rank
  NicId higher;  // and of the higher rank
  friend bool operator==(const NicPair&, const NicPair&) = default;
};

// Returns a best matching. Every NIC of the side with fewer gets one partner in its own subnet, and
// each NIC of the other side at most one. Then each NIC left over is paired once more with the
// least used partner in its subnet, so that no capacity lies idle.
// An address that both have is of no use between them: a container engine gives every host the same
// one. NICs without a common subnet may still be routed to each other, on a fabric where all NICs
// are routed or only some rails are subnets: the i-th of them meets the i-th. The handshake shows
// whether they reach each other. A wrong pair costs a short attempt now and then; unused capacity
// would cost every operation. A NIC without any counterpart left stays idle.
std::vector<NicPair> match_nics(const RankInfo& lower, const RankInfo& higher);

// Returns the rail of each NIC of each of these ranks: rails[i][nic]. The rails are the NICs of the
// first rank that has most; another rank's NIC is on the rail of the one that it would be matched
// with. So NICs in one subnet are on one rail, also where a rank started without some of its NICs.
// The NICs of a rank have different rails.
std::vector<std::vector<uint16_t>> match_rails(std::span<const RankInfo* const> ranks);

// Returns the paths between `self` and `peer` as seen from `self`. When they share a host: through
// shared memory if both listen there, and over lo as its fallback. Otherwise: one for each NIC
// pair, and an out-of-band path where both have a control endpoint.
std::vector<PathSpec> make_paths(const RankInfo& self, const RankInfo& peer);
// Returns the addresses by which the NIC of that rank may be reached: its own, then those of the
// rank's other NICs in its subnets. Where a host answers for the address of one NIC on another (ARP
// flux), these lead to the NIC as well.
std::vector<Address> addresses_of(const RankInfo& peer, NicId nic);
// Returns the path through a third rank, which each link between two hosts has in a job of three or
// more.
PathSpec relay_path();

}  // namespace r2ccl
