// Resolves the name of a host that may not exist yet. A scheduler may create the names of a job's
// hosts one by one, so a rank may start before the name that it needs exists.
#pragma once

#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/config/host_port.h"
#include "transport/endpoint.h"

namespace r2ccl {

// The result of one query.
struct ResolveAttempt {
  std::vector<Endpoint> endpoints;  // empty: `error` gives the reason
  Status error;
  bool may_change = false;  // a later query may give another answer
};
using ResolveOnce = std::function<ResolveAttempt(const HostPort& where, AddressFamily family)>;

// Asks the C library, which may block for a long time.
ResolveAttempt resolve_once(const HostPort& where, AddressFamily family);

// Returns every address of the host, in the resolver's order; family none: both. Repeats the query
// until `timeout` has passed. Queries on another thread, because a resolver may block longer than
// that.
Result<std::vector<Endpoint>> resolve(const HostPort& where, AddressFamily family, TimeNs timeout,
                                      const Clock& clock, const ResolveOnce& once = resolve_once);

}  // namespace r2ccl
