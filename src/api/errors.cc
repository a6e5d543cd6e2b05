#include "api/errors.h"

namespace r2ccl::api {
namespace {

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
