#include "report.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace r2ccl::emulated {

bool logs(LogLevel level) {
  static const int most = [] {
    const char* text = std::getenv("EMULATED_CUDA_LOG");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return static_cast<int>(level) <= most;
}

void log(LogLevel level, const std::string& text) {
  if (logs(level)) std::fprintf(stderr, "emulated CUDA [%d]: %s\n", getpid(), text.c_str());
}

void fail(const std::string& text) {
  log(LogLevel::kError, text);
  std::abort();
}

void unsupported(const std::string& what) {
  fail(what + " is not emulated");
}

}  // namespace r2ccl::emulated
