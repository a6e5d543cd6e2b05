// The r2ccl command: finds the subcommand and turns its outcome into an exit status.
#include "command.h"

int main(int argc, char** argv) {
  CLI::App app{"r2ccl: collectives that a broken network cannot stop"};
  app.require_subcommand(1);
  r2ccl::tools::Action action;
  r2ccl::tools::add_bench_command(&app, &action);
  r2ccl::tools::add_demo_command(&app, &action);
  r2ccl::tools::add_drain_command(&app, &action);
  r2ccl::tools::add_info_command(&app, &action);
  r2ccl::tools::add_lab_command(&app, &action);
  r2ccl::tools::add_secret_command(&app, &action);
  r2ccl::tools::add_sim_command(&app, &action);
  r2ccl::tools::add_status_command(&app, &action);
  r2ccl::tools::add_version_command(&app, &action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return r2ccl::tools::report_usage(app, error);
  }
  return action();
}
