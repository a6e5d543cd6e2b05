#include "tools/common/command.h"

#include <cstdio>
#include <ctime>

#include "r2ccl/r2ccl.h"
#include "tools/common/help.h"

namespace r2ccl::tools {

int report_error(const char* command, const Status& status) {
  std::fprintf(stderr, "r2ccl %s: %s\n", command, status.message().c_str());
  return kExitError;
}

std::string no_such_command(const CLI::App& command, const std::string& name,
                            const std::string& word) {
  std::string known;
  for (const CLI::App* sub : command.get_subcommands(nullptr)) {
    known += (known.empty() ? "" : ", ") + sub->get_name();
  }
  if (known.empty()) return name + ": it has no commands, so '" + word + "' is none";
  return name + ": " + (word.empty() ? "a command is missing" : "no command '" + word + "'") +
         "; there are " + known + ". Run `" + name + " --help` for more.";
}

// For an unknown command CLI11 says only that a command is required.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help or --version
  const CLI::App* at = &app;
  std::string name = "r2ccl";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  const bool lacks_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                             !at->get_subcommands(nullptr).empty();
  const std::vector<std::string> words = app.remaining(true);
  if (lacks_command && at == &app && words.empty()) {
    std::fputs(help_text(app, name).c_str(), stdout);
    return 0;
  }
  std::fprintf(
      stderr, "%s\n",
      lacks_command
          ? no_such_command(*at, name, words.empty() ? "" : words[0]).c_str()
          : (name + ": " + error.what() + ". Run `" + name + " --help` for more.").c_str());
  return kExitError;
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
