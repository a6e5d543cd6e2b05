#include "command.h"

#include <cstdio>
#include <ctime>

#include "r2ccl/r2ccl.h"

namespace r2ccl::tools {

int report_error(const char* command, const Status& status) {
  std::fprintf(stderr, "r2ccl %s: %s\n", command, status.message().c_str());
  return kExitError;
}

// CLI11 says of an unknown command no more than that one is required.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  std::string name = "r2ccl";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  const std::vector<const CLI::App*> commands = at->get_subcommands(nullptr);
  if (dynamic_cast<const CLI::RequiredError*>(&error) == nullptr || commands.empty()) {
    return app.exit(error);
  }
  std::string known;
  for (const CLI::App* command : commands) {
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  const std::vector<std::string> words = app.remaining(true);
  const std::string what = words.empty() ? "a command is missing" : "no command '" + words[0] + "'";
  std::fprintf(stderr, "%s: %s; there are %s. Run with --help for more information.\n",
               name.c_str(), what.c_str(), known.c_str());
  return error.get_exit_code();
}

std::string version_text() {
  int library = 0;
  (void)r2cclGetVersion(&library);
  char text[128];
  std::snprintf(text, sizeof text, "r2ccl %d.%d.%d (library %d.%d.%d)", R2CCL_MAJOR, R2CCL_MINOR,
                R2CCL_PATCH, library / 10000, library / 100 % 100, library % 100);
  return text;
}

void pause_for(double seconds) {
  timespec left{};
  left.tv_sec = static_cast<time_t>(seconds);
  left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
  while (nanosleep(&left, &left) != 0) {
  }
}

void add_version_command(CLI::App* app, Action* action) {
  app->set_version_flag("--version", version_text, "Print the versions and end");
  CLI::App* sub = app->add_subcommand("version", "Versions of this command and of the library");
  sub->callback([action] {
    *action = [] {
      std::printf("%s\n", version_text().c_str());
      return 0;
    };
  });
}

}  // namespace r2ccl::tools
