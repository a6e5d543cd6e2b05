// The beginning of a C call: from the handle of a communicator to its object.
#pragma once

#include <memory>

#include "api/errors.h"
#include "api/handles.h"
#include "base/status.h"
#include "r2ccl/r2ccl.h"

namespace r2ccl::api {

// Returns the error for the handle of a `what` that was made before a fork().
Status from_parent(const char* function, const char* what);

// Returns the error of a call on a communicator that takes no more operations, because it was
// finalized or has failed.
Status check_open(const char* function, CommObject* comm);
Status check_not_finalized(const char* function, CommObject* comm);

Result<std::shared_ptr<CommObject>> find_comm(const char* function, r2cclComm_t handle);

// Returns a handle for a communicator that the caller of the C function gets.
r2cclComm_t adopt(std::unique_ptr<Communicator> made);

// Runs body(CommObject*) for the communicator of `handle`.
template <typename Body>
r2cclResult_t with_comm(const char* function, r2cclComm_t handle, Body body) {
  return guarded(function, [&]() -> r2cclResult_t {
    const auto found = find_comm(function, handle);
    return found.ok() ? body(found.value().get()) : result_of(found.status());
  });
}

}  // namespace r2ccl::api
