// Which NIC of one rank talks to which NIC of another. Pure; both ends compute the same answer.
#pragma once

#include <span>
#include <vector>

#include "runtime/bootstrap/rank_card.h"
#include "runtime/link/path.h"

namespace r2ccl {

struct NicPair {
  NicId lower;   // index into the NIC table of the lower rank
  NicId higher;  // and of the higher rank
  friend bool operator==(const NicPair&, const NicPair&) = default;
};

// A best matching: every NIC of the side with fewer gets one partner in its own subnet, each NIC of
// the other side at most one; then NICs left over are paired once more with the least used partner
// in their subnet, so that no live capacity lies idle. Those that share a subnet with nobody of the
// other side may still be routed to each other, be it on a fabric where all are, or where only some
// rails are subnets: the i-th of them meets the i-th. The handshake shows whether they reach each
// other; a pair that does not costs a short attempt now and then, a capacity left idle costs that
// much of every operation. One without any counterpart left adds none, and stays idle.
std::vector<NicPair> match_nics(const RankCard& lower, const RankCard& higher);

// The paths between `self` and `peer` as seen from `self`: over lo when they share a host, else one
// a NIC pair, and an out-of-band lane where both have a control endpoint.
std::vector<PathSpec> make_paths(const RankCard& self, const RankCard& peer);

}  // namespace r2ccl
