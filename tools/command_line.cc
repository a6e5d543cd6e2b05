// Finds the subcommand and turns its outcome into an exit status.
#include "tools/command_line.h"

#include <memory>

#include "tools/common/command.h"
#include "tools/common/help.h"

namespace r2ccl::tools {

int run_command_line(int argc, char** argv) {
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

}  // namespace r2ccl::tools
