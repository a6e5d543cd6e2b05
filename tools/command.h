// What main() wires together: each subcommand registers itself and leaves the function to run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/status.h"

namespace r2ccl::tools {

// The chosen subcommand's work; returns the exit status.
using Action = std::function<int()>;

// Exit statuses beside 0 and those of CLI11's own usage errors (100 and up).
inline constexpr int kExitFailed = 1;  // it ran, and what it found is not right
inline constexpr int kExitError = 2;   // it could not be done

// Prints what is wrong with the command line, where CLI11 would not name the word, the commands
// that there are included; returns the exit status.
int report_usage(const CLI::App& app, const CLI::ParseError& error);
std::string version_text();

// Sleeps so long, whatever signals come.
void pause_for(double seconds);

// Prints "r2ccl COMMAND: message" to stderr; returns kExitError.
int report_error(const char* command, const Status& status);

void add_demo_command(CLI::App* app, Action* action);
void add_drain_command(CLI::App* app, Action* action);
void add_info_command(CLI::App* app, Action* action);
void add_lab_command(CLI::App* app, Action* action);
void add_secret_command(CLI::App* app, Action* action);
void add_sim_command(CLI::App* app, Action* action);
void add_status_command(CLI::App* app, Action* action);
void add_bench_command(CLI::App* app, Action* action);
void add_version_command(CLI::App* app, Action* action);

}  // namespace r2ccl::tools
