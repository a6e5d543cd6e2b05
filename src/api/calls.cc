#include "api/calls.h"

#include <mutex>
#include <string>
#include <utility>

namespace r2ccl::api {
namespace {

Status no_comm(const char* function, r2cclComm_t handle) {
  return {Code::invalid_argument,
          std::string(function) + (handle == nullptr ? ": comm is NULL"
                                   : comms().was_given(handle)
                                       ? ": this communicator was destroyed"
                                       : ": comm is no communicator: r2cclCommInit... did not "
                                         "return it")};
}

}  // namespace

Status from_parent(const char* function, const char* what) {
  return {Code::invalid_usage, std::string(function) + ": this " + what +
                                   " belongs to the parent process; after fork() a child must "
                                   "make its own communicator"};
}

Status check_not_finalized(const char* function, CommObject* comm) {
  const std::lock_guard lock(comm->mutex);
  if (!comm->finalized) return {};
  return {Code::invalid_usage, std::string(function) + ": this communicator is finalized"};
}

Status check_open(const char* function, CommObject* comm) {
  R2CCL_RETURN_IF_ERROR(check_not_finalized(function, comm));
  return comm->communicator->failure();
}

r2cclComm_t adopt(std::unique_ptr<Communicator> made) {
  auto object = std::make_shared<CommObject>();
  object->communicator = std::move(made);
  return comms().add(std::move(object));
}

Result<std::shared_ptr<CommObject>> find_comm(const char* function, r2cclComm_t handle) {
  auto found = comms().find(handle);
  if (found == nullptr) return no_comm(function, handle);
  if (found->inherited()) return from_parent(function, "communicator");
  return found;
}

}  // namespace r2ccl::api
