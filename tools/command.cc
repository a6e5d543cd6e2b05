#include "command.h"

#include <cstdio>

#include "r2ccl/r2ccl.h"

namespace r2ccl::tools {

int report_error(const char* command, const Status& status) {
  std::fprintf(stderr, "r2ccl %s: %s\n", command, status.message().c_str());
  return kExitError;
}

void add_version_command(CLI::App* app, Action* action) {
  CLI::App* sub = app->add_subcommand("version", "Versions of this command and of the library");
  sub->callback([action] {
    *action = [] {
      int library = 0;
      if (r2cclGetVersion(&library) != r2cclSuccess) return kExitError;
      std::printf("r2ccl %d.%d.%d (library %d.%d.%d)\n", R2CCL_MAJOR, R2CCL_MINOR, R2CCL_PATCH,
                  library / 10000, library / 100 % 100, library % 100);
      return 0;
    };
  });
}

}  // namespace r2ccl::tools
