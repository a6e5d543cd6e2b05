#include "api/errors.h"

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

std::string& text() {
  thread_local std::string last;
  return last;
}

}  // namespace

void set_last_error(const std::string& message) {
  text() = message;
}
const char* last_error() {
  return text().c_str();
}

r2cclResult_t result_of(const Status& status) {
  if (!status.ok()) set_last_error(status.message());
  return static_cast<r2cclResult_t>(status.code());
}

r2cclResult_t error(Code code, const std::string& message) {
  return result_of(Status(code, message));
}

}  // namespace r2ccl::api
