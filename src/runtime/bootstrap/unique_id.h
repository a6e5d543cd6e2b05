// What the 128 bytes of r2cclUniqueId hold: who belongs to the job, and where its ranks meet. It
// travels through channels that are not ours (MPI_Bcast, a file, a key-value store), so a checksum
// turns a truncated or uninitialised id into words instead of a hang.
//
//   magic "R2ID"(4) version(1) flags(1: has a secret) endpoints(1) 0(1) job(16) secret(32)
//   3 x { family(1) port(2) address(16) }  0(7)  checksum(8)
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/wire/handshake.h"
#include "transport/endpoint.h"

namespace r2ccl {

inline constexpr size_t kUniqueIdBytes = 128;
inline constexpr size_t kUniqueIdEndpointsMax = 3;

struct UniqueId {
  JobIdentity job;
  std::vector<Endpoint> rendezvous;  // at most kUniqueIdEndpointsMax, tried in turn
};

using UniqueIdBytes = std::array<std::byte, kUniqueIdBytes>;

UniqueIdBytes encode(const UniqueId& id);
Result<UniqueId> decode_unique_id(std::span<const std::byte, kUniqueIdBytes> bytes);

// A job that no other can be mistaken for, with a fresh secret.
JobIdentity make_job_identity();
// The job of ranks that were given no id, only a place to meet: `name` is public and equal on all
// of them. Without a `secret` (its text) anybody can take part in the start of the job, for a key
// from public values proves nothing. Fails when there is no memory to derive a key from it.
Result<JobIdentity> make_job_identity(std::string_view name, const LockedBytes& secret);

}  // namespace r2ccl
