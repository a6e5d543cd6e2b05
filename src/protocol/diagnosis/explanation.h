// The components that are at fault when some pairs of NICs do not work: the fewest that explain all
// of them. Pure.
//
// "Smallest consistent failure set" (Duffield, Network Tomography of Binary Network Performance
// Characteristics, IEEE Trans. Inf. Theory 2006). Each pair that does not work has a NIC at fault
// at one of its ends. Several sets may explain the pairs equally well: one pair has two ends. A
// verdict that names an innocent NIC is worse than none, so a component must be in every smallest
// set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "protocol/diagnosis/nic_name.h"

namespace r2ccl {

struct Suspects {
  std::set<NicName> innocent;  // NICs that work towards some other
  std::set<uint32_t> dark;     // hosts that lost all their NICs, for which one fault may account
};

// Returns the NICs, and the dark hosts as NICs without a name, that are in every smallest set which
// explains the pairs. Returns none where a pair has two innocent ends, or where no set does that
// has at most `size_max` components beside the only suspects of a pair.
std::set<NicName> in_every_smallest_set(const std::vector<NicPair>& pairs, const Suspects& suspects,
                                        size_t size_max);

// Requires a pair. Moves those pairs out of `pairs` that are connected with the first one by NICs
// and dark hosts: other faults do not change their explanation.
std::vector<NicPair> take_component(std::vector<NicPair>& pairs,
                                    const std::set<uint32_t>& dark = {});

}  // namespace r2ccl
