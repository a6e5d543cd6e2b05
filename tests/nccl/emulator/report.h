// The emulator's messages, on standard error. A call or a piece of work that is not emulated ends
// the process: a test must never go on with a result that was not computed.
#pragma once

#include <string>

namespace r2ccl::emulated {

// EMULATED_CUDA_LOG: 0 errors alone (default), 1 the start, 2 each launch and its work.
enum class LogLevel { kError = 0, kStart = 1, kWork = 2 };

bool logs(LogLevel level);
void log(LogLevel level, const std::string& text);

// Ends the process with a line that names the reason.
[[noreturn]] void fail(const std::string& text);
[[noreturn]] void unsupported(const std::string& what);

}  // namespace r2ccl::emulated
