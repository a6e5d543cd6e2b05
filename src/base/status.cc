#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace r2ccl {

Status system_error(const std::string& what, int error) {
  char buffer[128];
  // This is the GNU form of strerror_r: thread-safe, returns the text.
  std::string text = what + ": " + strerror_r(error, buffer, sizeof buffer);
  if (error == EMFILE) text += " (raise the limit: ulimit -n)";
  return {Code::system, std::move(text)};
}

}  // namespace r2ccl
