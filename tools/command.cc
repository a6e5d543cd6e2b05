#include "command.h"

#include <cstdio>

namespace r2ccl::tools {

int report_error(const char* command, const Status& status) {
  std::fprintf(stderr, "r2ccl %s: %s\n", command, status.message().c_str());
  return kExitError;
}

}  // namespace r2ccl::tools
