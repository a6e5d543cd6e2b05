// Waits for several requests of one thread, of any communicators. A null entry is complete.
//
// The waiting thread drives, as Request::wait. Where the requests have several drivers, it drives
// one of them; the others have their progress threads.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/clock.h"
#include "runtime/collective/request.h"

namespace r2ccl {

using RequestSpan = std::span<const std::shared_ptr<Request>>;

// Returns the lowest index of an entry for which `complete` is the state; nothing if there is none.
std::optional<size_t> find_request(RequestSpan requests, bool complete);

// Returns when all are complete, or false when `timeout` (kNever: no bound) passed first. The cost
// is in proportion to the requests.
bool wait_all(RequestSpan requests, TimeNs timeout);

// Returns the index of a complete request, the lowest one, or nothing when `timeout` passed first.
// Each call that waits has a cost in proportion to the requests. Requires an entry that is not
// null.
std::optional<size_t> wait_any(RequestSpan requests, TimeNs timeout);

}  // namespace r2ccl
