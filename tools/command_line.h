// The whole r2ccl command, without main(): that file would compile CLI11 once more.
#pragma once

namespace r2ccl::tools {

// Runs the subcommand that the arguments name, and returns the exit status.
int run_command_line(int argc, char** argv);

}  // namespace r2ccl::tools
