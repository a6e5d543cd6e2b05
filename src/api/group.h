// The open group of the calling thread: r2cclGroupStart and r2cclGroupEnd.
//
// A call inside a group checks its arguments and records its operation. The outermost
// r2cclGroupEnd starts all of them, or none when a call has failed.
#pragma once

#include <string>

#include "api/handles.h"
#include "base/status.h"
#include "r2ccl/r2ccl.h"
#include "runtime/collective/operation.h"

namespace r2ccl::api {

// Returns whether the calling thread has an open group.
bool in_group() noexcept;

// Returns the error of a call that no group can have.
Status check_outside_group(const std::string& function);

// Records a call. `request`: where r2cclGroupEnd puts the request; null for a call that blocks. The
// group keeps no communicator alive.
void add_to_group(const char* function, CommObject& comm, r2cclRequest_t* request,
                  Operation operation);

// Counts a call of the group, and remembers the first one that fails. Returns `result`.
r2cclResult_t note_in_group(const char* function, r2cclResult_t result) noexcept;

}  // namespace r2ccl::api
