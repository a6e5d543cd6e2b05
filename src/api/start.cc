#include "api/start.h"

#include <memory>

#include "api/errors.h"
#include "runtime/collective/request.h"

namespace r2ccl::api {

r2cclResult_t conclude(const char* function, CommObject* comm, r2cclRequest_t* request,
                       Operation operation, const std::optional<BadMemory>& bad) {
  operation.name = take_call_name();
  if (in_group() && !bad) {
    add_to_group(function, *comm, request, std::move(operation));
    return r2cclSuccess;
  }
  if (request == nullptr || bad) {
    const std::shared_ptr<Request> started = comm->communicator->start(std::move(operation), bad);
    (void)started->wait(kNever);
    return result_of(started->status());
  }
  auto object = std::make_shared<RequestObject>();
  object->comm = comm->weak_from_this();
  // Add the handle first: once the operation has started, nothing may fail here any more.
  const r2cclRequest_t handle = requests().add(object);
  try {
    object->request = comm->communicator->start(std::move(operation));
  } catch (...) {
    (void)requests().take(handle);
    throw;
  }
  comm->communicator->advance(*object->request);
  *request = handle;
  return r2cclSuccess;
}

}  // namespace r2ccl::api
