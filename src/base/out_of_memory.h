// The error that needs no memory.
#pragma once

#include <new>

#include "base/status.h"

namespace r2ccl {

// Text of at most 15 bytes, which std::string keeps inside itself, so that neither the status nor a
// copy of it allocates. For a place that cannot go on without an error and has no memory for a
// longer text; `code` is that of the error whose text is lost.
inline Status out_of_memory(Code code = Code::system) noexcept {
  return Status(code, "out of memory");
}

// Returns the status of this code and text, or the short one when there is no memory for it.
inline Status status_in_any_case(Code code, const char* text) noexcept {
  try {
    return Status(code, text);
  } catch (const std::bad_alloc&) {
    return out_of_memory(code);
  }
}

// Returns a copy, or the short one when there is no memory for it.
inline Status copy_in_any_case(const Status& status) noexcept {
  try {
    return status;
  } catch (const std::bad_alloc&) {
    return out_of_memory(status.code());
  }
}

}  // namespace r2ccl
