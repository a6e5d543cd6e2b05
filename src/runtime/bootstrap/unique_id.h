// The 128 bytes of r2cclUniqueId: the identity and secret of the job, and the addresses where its
// ranks meet. The id travels through foreign channels (MPI_Bcast, a file, a key-value store), so a
// checksum turns a truncated or uninitialised id into an error instead of a hang.
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

// Returns a job with a unique identity and a fresh secret.
JobIdentity make_job_identity();
// Returns a job with a unique identity and no secret, so that its id may be public.
JobIdentity make_public_job_identity();
// Mixes the text of the process's secret into the job's, unless it is empty: the id alone then does
// not suffice to take part. Fails as make_job_identity().
Status mix_in_secret(const LockedBytes& text, JobIdentity* job);
// Returns the job of ranks that got no id, only a rendezvous address: `name` is public and equal on
// all of them. Without a `secret` (its text) anybody can take part in the start of the job, because
// a key from public values proves nothing. Fails when there is no memory to derive a key from the
// secret.
Result<JobIdentity> make_job_identity(std::string_view name, const LockedBytes& secret);

}  // namespace r2ccl
