// The parts that main() connects: each subcommand registers itself and leaves the function to run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/status.h"

namespace r2ccl::tools {

// Runs the chosen subcommand and returns the exit status.
using Action = std::function<int()>;

// Exit statuses beside 0.
inline constexpr int kExitFailed = 1;  // it ran, and found an error
inline constexpr int kExitError = 2;   // it could not run, or the command line is wrong

// Prints the error in the command line, or the help that it asks for, and returns the exit status.
// Without any word it prints the help of the whole command.
int report_usage(const CLI::App& app, const CLI::ParseError& error);
// Returns "r2ccl lab: no command 'word'; there are up, down, ..."
std::string no_such_command(const CLI::App& command, const std::string& name,
                            const std::string& word);
std::string version_text();

// Sleeps for this time; signals do not shorten it.
void pause_for(double seconds);

// Prints "r2ccl COMMAND: message" to stderr; returns kExitError.
int report_error(const char* command, const Status& status);

void add_demo_command(CLI::App* app, Action* action);
void add_drain_command(CLI::App* app, Action* action);
void add_help_command(CLI::App* app, Action* action);
void add_info_command(CLI::App* app, Action* action);
void add_lab_command(CLI::App* app, Action* action);
void add_plan_command(CLI::App* app, Action* action);
void add_secret_command(CLI::App* app, Action* action);
void add_sim_command(CLI::App* app, Action* action);
void add_status_command(CLI::App* app, Action* action);
void add_bench_command(CLI::App* app, Action* action);
void add_version_command(CLI::App* app, Action* action);

}  // namespace r2ccl::tools
