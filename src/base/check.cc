#include "base/check.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/limits.h"
#include "base/log.h"

namespace r2ccl {

// The reader of standard error may have stalled: the process must end all the same.
void check_failed(const char* condition, const char* file, int line) {
  log_flush();
  char text[1024];
  const int size = std::snprintf(text, sizeof text,
                                 "r2ccl: bug: %s does not hold at %s:%d; please report this\n",
                                 condition, file, line);
  std::signal(SIGPIPE, SIG_IGN);
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  constexpr int kWaitMs = static_cast<int>(limits::kLogFarewell / kMillisecond);
  if (size > 0 && poll(&room, 1, kWaitMs) == 1) {
    (void)!write(STDERR_FILENO, text, std::min(static_cast<size_t>(size), sizeof text - 1));
  }
  std::abort();
}

}  // namespace r2ccl
