#include "api/errors.h"

#include <new>

#include "base/out_of_memory.h"

namespace r2ccl::api {
namespace {

constexpr bool same(Code code, r2cclResult_t result) {
  return static_cast<int>(code) == static_cast<int>(result);
}
static_assert(same(Code::ok, r2cclSuccess) && same(Code::system, r2cclSystemError) &&
              same(Code::internal, r2cclInternalError) &&
              same(Code::invalid_argument, r2cclInvalidArgument) &&
              same(Code::invalid_usage, r2cclInvalidUsage) &&
              same(Code::remote, r2cclRemoteError) && same(Code::in_progress, r2cclInProgress) &&
              same(Code::timeout, r2cclTimeout) && same(Code::aborted, r2cclAborted));

Status& last() {
  thread_local Status error;
  return error;
}

}  // namespace

const Status& last_error() {
  return last();
}

r2cclResult_t result_of(const Status& status) {
  if (!status.ok()) last() = status;
  return static_cast<r2cclResult_t>(status.code());
}

r2cclResult_t error(Code code, const std::string& message) {
  return result_of(Status(code, message));
}

r2cclResult_t error_of(const char* function, const std::exception& caught) noexcept {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&caught) != nullptr;
  try {
    const std::string why = memory ? out_of_memory().message() : caught.what();
    return error(memory ? Code::system : Code::internal, std::string(function) + ": " + why);
  } catch (const std::bad_alloc&) {
    last() = out_of_memory();
    return r2cclSystemError;
  }
}

}  // namespace r2ccl::api
