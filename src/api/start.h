// The frame of a C call that starts an operation.
#pragma once

#include <memory>
#include <utility>

#include "api/calls.h"
#include "api/errors.h"
#include "api/group.h"
#include "api/handles.h"
#include "r2ccl/r2ccl.h"
#include "runtime/collective/call_name.h"
#include "runtime/collective/request.h"

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

// Returns once `start()`, which returns the operation's Request, has run and, without a request
// pointer, the operation is complete. A `refused` call ends at once, because there is nothing to
// wait for. Inside a group `start` runs later, in r2cclGroupEnd, so it must own what it uses; the
// communicator is alive then.
template <typename Start>
r2cclResult_t conclude(const char* function, CommObject* comm, r2cclRequest_t* request,
                       bool refused, Start start) {
  if (in_group() && !refused) {
    add_to_group(function, *comm, request, std::move(start));
    return r2cclSuccess;
  }
  if (request == nullptr || refused) {
    const std::shared_ptr<Request> started = start();
    (void)started->wait(kNever);
    return result_of(started->status());
  }
  auto object = std::make_shared<RequestObject>();
  object->comm = comm->weak_from_this();
  // Add the handle first: once the operation has started, nothing may fail here any more.
  const r2cclRequest_t handle = requests().add(object);
  try {
    object->request = start();
  } catch (...) {
    (void)requests().take(handle);
    throw;
  }
  comm->communicator->advance(*object->request);
  *request = handle;
  return r2cclSuccess;
}

}  // namespace r2ccl::api
