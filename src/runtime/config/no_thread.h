// The error of a thread that could not start.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "base/status.h"

namespace r2ccl {

// Returns what follows the kernel's words: the remedy, or nothing.
inline const char* thread_advice(const std::system_error& error) noexcept {
  return error.code().value() == EAGAIN
             ? " (no thread could start: raise the limit of processes, `ulimit -u`, or that of the "
               "container, pids.max)"
             : "";
}

inline Status no_thread(const std::string& what, const std::system_error& error) {
  const Status why = system_error(what, error.code().value());
  return why.with_message(why.message() + thread_advice(error));
}

}  // namespace r2ccl
