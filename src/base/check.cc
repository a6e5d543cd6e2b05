#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace r2ccl {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "r2ccl: bug: %s does not hold at %s:%d; please report this\n", condition,
               file, line);
  std::abort();
}

}  // namespace r2ccl
