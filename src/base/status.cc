#include "base/status.h"

#include <cstring>

namespace r2ccl {

Status system_error(const std::string& what, int error) {
  char buffer[128];
  // The GNU form of strerror_r: thread-safe, returns the text.
  return {Code::system, what + ": " + strerror_r(error, buffer, sizeof buffer)};
}

}  // namespace r2ccl
