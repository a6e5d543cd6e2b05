// Which ranks are on one host: those that share the kernel, the network namespace and /dev/shm, for
// only they may use loopback and shared memory between them. Two containers of one machine need
// not.
#pragma once

#include <string>

#include "runtime/bootstrap/rank_card.h"

namespace r2ccl {

// Of the calling process. Fails when /proc is not there.
Result<HostId> host_identity();

// What R2CCL_HOST_ID says in its place: the same for the same text.
HostId host_identity_named(const std::string& text);

// The machine's name, "?" when it has none.
std::string host_name();

}  // namespace r2ccl
