// The text of the last error per thread, for r2cclGetLastError.
#pragma once

#include <exception>
#include <string>

#include "base/status.h"
#include "r2ccl/r2ccl.h"

namespace r2ccl::api {

// Stores the status's message for this thread and translates its code.
r2cclResult_t result_of(const Status& status);
r2cclResult_t error(Code code, const std::string& message);
// Stores and translates an exception that `function` caught. Needs no memory, only uses it: the
// text is short when there is none.
r2cclResult_t error_of(const char* function, const std::exception& caught) noexcept;
// Returns the last error of this thread, Ok if there was none.
const Status& last_error();

// Runs `body`, which returns r2cclResult_t, and translates each exception into a result, because
// none may leave a C function. The caller can handle a lack of memory; every other exception is a
// bug of r2ccl.
template <typename Body>
r2cclResult_t guarded(const char* function, Body body);

}  // namespace r2ccl::api

template <typename Body>
r2cclResult_t r2ccl::api::guarded(const char* function, Body body) {
  try {
    return body();
  } catch (const std::exception& caught) {
    return error_of(function, caught);
  }
}
