// The frame of a C call that starts an operation.
#pragma once

#include <optional>
#include <utility>

#include "api/call_name.h"
#include "api/calls.h"
#include "api/group.h"
#include "api/handles.h"
#include "r2ccl/r2ccl.h"
#include "runtime/collective/operation.h"

namespace r2ccl::api {

// Runs body(CommObject*) for the communicator of `handle`; the body ends with conclude(). Sets the
// request to NULL first, because a failed call must not leave a value that looks like a request.
template <typename Body>
r2cclResult_t start_call(const char* function, r2cclComm_t handle, r2cclRequest_t* request,
                         Body body) {
  if (request != nullptr) *request = nullptr;
  const r2cclResult_t result = with_comm(function, handle, std::move(body));
  drop_call_name();  // a call that failed has not used it
  return in_group() ? note_in_group(function, result) : result;
}

// Starts the operation, with the name that the thread has given. Without a request pointer it
// returns once the operation is complete; so does a call with bad memory, which fails at once.
// Inside a group r2cclGroupEnd starts it.
r2cclResult_t conclude(const char* function, CommObject* comm, r2cclRequest_t* request,
                       Operation operation, const std::optional<BadMemory>& bad);

}  // namespace r2ccl::api
