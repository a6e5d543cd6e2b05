// Running other programs without a shell: fork, exec, feed standard input, collect both outputs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace r2ccl::tools {

struct Command {
  std::vector<std::string> argv;
  std::string input;       // text for the program's standard input
  std::string netns_path;  // a network namespace to run it in; empty: this one
};

struct Outcome {
  int status = 0;  // exit status, or 128 + signal number
  std::string out;
  std::string err;
};

// Runs the program to its end. Returns an error only if it could not be started; the error for a
// missing program names the package that has it.
Result<Outcome> run_program(const Command& command);

// Does the same, but returns an error that quotes the program's output if the exit status is not 0.
Result<std::string> run_checked(const Command& command);

// Returns the exit status that a shell would report for this wait status.
int exit_status(int wait_status);

}  // namespace r2ccl::tools
