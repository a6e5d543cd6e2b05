// The key of a job's secret, derived once in a process for all its communicators.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "protocol/wire/key_schedule.h"

namespace r2ccl {

// Returns derive_secret() of the arguments. The process keeps the last key until its exit, so its
// next communicators do not pay again for Argon2id. Any thread.
Result<LockedBytes> process_secret(const LockedBytes& text,
                                   std::span<const std::byte, kJobIdBytes> job_id);

}  // namespace r2ccl
