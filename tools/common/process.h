// Running other programs without a shell: fork, exec, feed standard input, collect both outputs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace r2ccl::tools {

struct Command {
  std::vector<std::string> argv;
  std::string input;       // what the program reads on standard input
  std::string netns_path;  // a network namespace to run it in; empty: this one
};

struct Outcome {
  int status = 0;  // exit status, or 128 + signal number
  std::string out;
  std::string err;
};

// Runs the program to its end. An error only when it could not be started; a missing program is
// named together with the package that has it.
Result<Outcome> run_program(const Command& command);

// As above, and an exit status other than 0 is an error that quotes what the program said.
Result<std::string> run_checked(const Command& command);

// What a shell would report for this wait status.
int exit_status(int wait_status);

}  // namespace r2ccl::tools
