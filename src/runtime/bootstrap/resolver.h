// The addresses of a host's name that may not exist yet: where a scheduler creates the names of a
// job's hosts one by one, a rank may start before the name that it needs.
#pragma once

#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/config/host_port.h"
#include "transport/endpoint.h"

namespace r2ccl {

// The result of asking once.
struct ResolveAttempt {
  std::vector<Endpoint> endpoints;  // empty: `error` says why
  Status error;
  bool may_change = false;  // asking again later may give another answer
};
using ResolveOnce = std::function<ResolveAttempt(const HostPort& where, AddressFamily family)>;

// Asks the C library, which may block for long.
ResolveAttempt resolve_once(const HostPort& where, AddressFamily family);

// Every address of the host, in the resolver's order; family none: both. Asks again and again until
// `timeout` has passed. Asks on another thread, because a resolver may take longer than that.
Result<std::vector<Endpoint>> resolve(const HostPort& where, AddressFamily family, TimeNs timeout,
                                      const Clock& clock, const ResolveOnce& once = resolve_once);

}  // namespace r2ccl
