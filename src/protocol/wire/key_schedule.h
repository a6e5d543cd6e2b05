// The sources of the keys. docs/decisions/0011-keys-come-from-the-run.md has the whole schedule.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"
#include "protocol/wire/handshake.h"

namespace r2ccl {

inline constexpr size_t kRunTokenBytes = 32;

// Returns the run that the rendezvous announced. `token` is its random number; `table` contains the
// ranks with their hosts, NICs and listeners, as bytes. Ranks that got different tables have
// different keys, so they refuse each other.
RunIdentity make_run_identity(const JobIdentity& job, const LockedBytes& token,
                              std::span<const std::byte> table);

// Returns kSecretBytes from the text of a secret, for the job called `job_id`. A text of
// generate_secret() is random enough already. Argon2id stretches any other, which takes a tenth of
// a second and 64 MB, so that each guess costs as much.
Result<LockedBytes> derive_secret(const LockedBytes& text,
                                  std::span<const std::byte, kJobIdBytes> job_id);

// Returns the secret of a child, a job that ranks of this run start among them. `child_id` is fresh
// and public. A run of one rank has no key, and its children have random secrets.
LockedBytes derive_child_secret(const RunIdentity& run,
                                std::span<const std::byte, kJobIdBytes> child_id);

// Returns the text of a fresh secret: a prefix and 32 random bytes in hexadecimal.
LockedBytes generate_secret();

}  // namespace r2ccl
