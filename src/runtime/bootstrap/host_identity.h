// Finds the ranks on one host: ranks that share the kernel, the network namespace and /dev/shm.
// Only such ranks may use loopback and shared memory between them. Two containers of one machine
// need not share these.
#pragma once

#include <string>

#include "runtime/bootstrap/rank_info.h"

namespace r2ccl {

// Returns the identity of the calling process's host. Fails without /proc.
Result<HostId> host_identity();

// Returns the identity that R2CCL_HOST_ID sets instead. Equal texts give equal identities.
HostId host_identity_named(const std::string& text);

// Returns the machine's name, "?" when it has none.
std::string host_name();

}  // namespace r2ccl
