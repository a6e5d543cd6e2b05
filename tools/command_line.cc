// Finds the subcommand and turns its outcome into an exit status.
#include "tools/command_line.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>

#include "tools/common/command.h"
#include "tools/common/help.h"

namespace r2ccl::tools {
namespace {

int run_subcommand(int argc, char** argv) {
  CLI::App app{"r2ccl: collectives that a broken network cannot stop", "r2ccl"};
  app.require_subcommand(1);
  // Before the commands, which take it over.
  app.formatter(std::make_shared<HelpFormatter>());
  Action action;
  add_bench_command(&app, &action);
  add_demo_command(&app, &action);
  add_drain_command(&app, &action);
  add_help_command(&app, &action);
  add_info_command(&app, &action);
  add_lab_command(&app, &action);
  add_plan_command(&app, &action);
  add_secret_command(&app, &action);
  add_sim_command(&app, &action);
  add_status_command(&app, &action);
  add_version_command(&app, &action);
  add_examples(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  }
  return action();
}

// Standard output has a buffer, so a command learns of a full disk only when it ends.
Status flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  if (errno != 0) return system_error("standard output", errno);
  return {Code::system, "standard output: a part of it could not be written"};
}

}  // namespace

int run_command_line(int argc, char** argv) {
  int status = kExitError;
  try {
    status = run_subcommand(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs(
        "r2ccl: out of memory; ask for fewer ranks or bytes, or allow the command more memory\n",
        stderr);
  }
  const Status written = flush_output();
  if (written.ok()) return status;
  std::fprintf(stderr, "r2ccl: %s\n", written.message().c_str());
  return kExitError;
}

}  // namespace r2ccl::tools
