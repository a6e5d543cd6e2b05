// Where rank 0 listens for a rendezvous whose place the environment names. Pure.
//
// The other ranks know rank 0's host by a name or an address. This host may know it by another one:
// Debian calls a host 127.0.1.1 by its own name, a service's or a published address is on no
// interface, and a name may not resolve here at all. So rank 0 listens on all its addresses, unless
// the place says that all ranks are on this host, or names one of its addresses.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/config/host_port.h"
#include "transport/endpoint.h"
#include "transport/transport.h"

namespace r2ccl {

// Rank 0 listens without knowing its host's address, and asks for it this long: a resolver of the
// site answers within a few round trips, and one that does not must not keep the others out.
inline constexpr TimeNs kOwnNamePatience = 1 * kSecond;

struct MeetingPlace {
  std::vector<Endpoint> listen;
  // Where this process itself reaches them; any of them will do.
  std::vector<Endpoint> dial;
  bool is_loopback = false;  // no other host reaches it
  std::string note;          // for the error of a job whose ranks do not come; empty: none
};

// Returns true for a loopback address and for the names that always stand for one (RFC 6761).
bool is_loopback_name(const std::string& host);

// `found`: the addresses that this host's resolver has for the place; none: it knows none. `nics`:
// those of this host. `family`: none stands for both.
MeetingPlace plan_meeting(const HostPort& place, std::span<const Endpoint> found,
                          std::span<const Nic> nics, AddressFamily family);

// Returns up to `count_max` endpoints that an id names, so that the ranks of other hosts find the
// listeners: the addresses of the place that are no loopback's, then those of this host's NICs.
std::vector<Endpoint> published_endpoints(const MeetingPlace& meeting,
                                          std::span<const Endpoint> found,
                                          std::span<const Endpoint> of_nics, size_t count_max);

}  // namespace r2ccl
