// The r2ccl command: finds the subcommand and turns its outcome into an exit status.
#include <memory>

#include "tools/common/command.h"
#include "tools/common/help.h"

int main(int argc, char** argv) {
  CLI::App app{"r2ccl: collectives that a broken network cannot stop", "r2ccl"};
  app.require_subcommand(1);
  // Before the commands, which take it over.
  app.formatter(std::make_shared<r2ccl::tools::HelpFormatter>());
  r2ccl::tools::Action action;
  r2ccl::tools::add_bench_command(&app, &action);
  r2ccl::tools::add_demo_command(&app, &action);
  r2ccl::tools::add_drain_command(&app, &action);
  r2ccl::tools::add_help_command(&app, &action);
  r2ccl::tools::add_info_command(&app, &action);
  r2ccl::tools::add_lab_command(&app, &action);
  r2ccl::tools::add_secret_command(&app, &action);
  r2ccl::tools::add_sim_command(&app, &action);
  r2ccl::tools::add_status_command(&app, &action);
  r2ccl::tools::add_version_command(&app, &action);
  r2ccl::tools::add_examples(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return r2ccl::tools::report_usage(app, error);
  }
  return action();
}
