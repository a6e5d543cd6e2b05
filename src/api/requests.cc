// The C edge: waiting for operations.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "api/calls.h"
#include "api/errors.h"
#include "api/handles.h"
#include "r2ccl/r2ccl.h"

namespace {

using r2ccl::Code;
using r2ccl::Request;
using r2ccl::Result;
using r2ccl::Status;
using r2ccl::api::error;
using r2ccl::api::from_parent;
using r2ccl::api::guarded;
using r2ccl::api::RequestObject;
using r2ccl::api::requests;
using r2ccl::api::result_of;

Status no_request(const char* function, r2cclRequest_t handle) {
  return {Code::invalid_argument,
          std::string(function) +
              (requests().was_given(handle)
                   ? ": this request is complete and was freed; another copy of it was waited for, "
                     "tested or aborted before"
                   : ": *request is no request: set it to NULL or start an operation with it")};
}

Result<std::shared_ptr<RequestObject>> find_request(const char* function, r2cclRequest_t handle) {
  auto found = requests().find(handle);
  if (found == nullptr) return no_request(function, handle);
  if (found->inherited()) return from_parent(function, "request");
  return found;
}

}  // namespace

extern "C" {

r2cclResult_t r2cclRequestTest(r2cclRequest_t* request, int* done) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr || done == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestTest: request or done is NULL");
    }
    *done = 1;
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestTest", *request);
    if (!found.ok()) return result_of(found.status());
    *done = found.value()->request->done() ? 1 : 0;
    return *done != 0 ? r2cclRequestWait(request, 0) : r2cclSuccess;
  });
}

r2cclResult_t r2cclRequestWait(r2cclRequest_t* request, int64_t timeout_ms) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestWait: request is NULL");
    }
    if (timeout_ms < -1) {
      return error(Code::invalid_argument, "r2cclRequestWait: timeout_ms is below -1");
    }
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestWait", *request);
    if (!found.ok()) return result_of(found.status());
    const std::shared_ptr<Request>& operation = found.value()->request;
    constexpr int64_t kForeverMs = r2ccl::kNever / r2ccl::kMillisecond / 4;
    const bool bounded = timeout_ms >= 0 && timeout_ms < kForeverMs;
    const r2ccl::TimeNs bound = bounded ? timeout_ms * r2ccl::kMillisecond : r2ccl::kNever;
    if (!operation->wait(bound)) {
      const std::string waiting_for = operation->waiting_for();
      return error(Code::timeout, "r2cclRequestWait: not complete after " +
                                      std::to_string(timeout_ms) + " ms" +
                                      (waiting_for.empty() ? "" : ": " + waiting_for));
    }
    const r2cclRequest_t handle = std::exchange(*request, nullptr);
    if (requests().take(handle) == nullptr) {
      return result_of(no_request("r2cclRequestWait", handle));
    }
    return result_of(operation->status());
  });
}

r2cclResult_t r2cclRequestAbort(r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestAbort: request is NULL");
    }
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestAbort", *request);
    if (!found.ok()) return result_of(found.status());
    // A communicator that was freed has completed its requests.
    if (const auto comm = found.value()->comm.lock();
        comm != nullptr && !found.value()->request->done()) {
      comm->communicator->abort("r2cclRequestAbort was called");
    }
    (void)requests().take(std::exchange(*request, nullptr));
    return r2cclSuccess;
  });
}

}  // extern "C"
