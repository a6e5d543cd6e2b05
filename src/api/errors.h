// The last error of each thread, for r2cclGetLastError, and the boundary that no exception passes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "base/status.h"
#include "r2ccl/r2ccl.h"

namespace r2ccl::api {

// An error in memory of its own, so that there is always room for one. A longer text is cut. It has
// no destructor: the C library ends the process when it has no memory to note one for a thread.
struct KeptError {
  Code code = Code::ok;
  size_t rank_count = 0;  // of the error; the first of them are in `ranks`
  std::array<int32_t, R2CCL_ERROR_RANKS_MAX> ranks{};
  std::array<char, 4096> text{};  // ends with a NUL

  void set(Code error, std::string_view message) noexcept;
  void set(const Status& error) noexcept;
};

// Keeps the error for this thread and translates its code. Ok keeps the earlier one.
r2cclResult_t result_of(const Status& status) noexcept;
r2cclResult_t error(Code code, std::string_view message) noexcept;
// Keeps and translates an exception that `function` caught.
r2cclResult_t error_of(const char* function, const std::exception& caught) noexcept;
// Returns the last error of this thread; its code is Ok if there was none.
const KeptError& last_error() noexcept;

// Runs `body`, which returns r2cclResult_t, and translates each exception into a result, because
// none may leave a C function. The caller can handle a lack of memory or threads; every other
// exception is a bug of r2ccl.
template <typename Body>
r2cclResult_t guarded(const char* function, Body body) noexcept;

}  // namespace r2ccl::api

template <typename Body>
r2cclResult_t r2ccl::api::guarded(const char* function, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& caught) {
    return error_of(function, caught);
  }
}
