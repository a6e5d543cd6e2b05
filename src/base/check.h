// CHECK states a condition that only a bug in r2ccl can break. It stays on in release builds,
// because a collective library that goes on after a broken invariant hands wrong numbers to a
// training job.
#pragma once

namespace r2ccl {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace r2ccl

#define R2CCL_CHECK(condition) \
  ((condition) ? (void)0 : ::r2ccl::check_failed(#condition, __FILE__, __LINE__))
