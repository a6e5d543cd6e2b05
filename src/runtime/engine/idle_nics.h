// Finds the NICs that have not served since the start, and says why in words: no fault, but a
// network that the job does not use although its user may count on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace r2ccl {

class ProgressEngine;

// By then every path that works has been up: each is tried many times a second, and the first
// handshakes of a large job take about a second.
inline constexpr TimeNs kIdleNicsAfter = 2 * kSecond;

// Why a NIC does not serve. The values go into summaries.
enum class IdleCause : uint8_t {
  none,
  own_address,    // the peers' addresses there are this host's own too
  shared_subnet,  // several NICs of a host are on one network
  unreached,      // no attempt arrives
};

// Returns the cause and its remedy in words, without the names; empty: `none`, or unknown.
std::string words_of(IdleCause cause);

struct IdleNic {
  NicId nic;
  IdleCause cause = IdleCause::none;
  std::string text;  // names the NIC, the hosts, the cause and the remedy
};

// Returns the data NICs of this rank of which no path, or where several NICs share a network not
// every path, has been up since the start. Requires that kIdleNicsAfter has passed since then.
std::vector<IdleNic> find_idle_nics(const ProgressEngine& engine);

}  // namespace r2ccl
