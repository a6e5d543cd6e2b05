// r2ccl secret: makes the secret by which a process proves that it belongs to a job.
#include <cstdio>

#include "protocol/wire/key_schedule.h"
#include "runtime/config/secret_file.h"
#include "tools/common/command.h"

namespace r2ccl::tools {
namespace {

int run_secret(const std::string& file) {
  const LockedBytes secret = generate_secret();
  if (!file.empty()) {
    const Status status = write_secret_file(file, secret);
    return status.ok() ? 0 : report_error("secret", status);
  }
  const auto bytes = secret.bytes();
  // A buffer would keep a copy of the secret.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  const bool printed = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() &&
                       std::fputc('\n', stdout) != EOF;
  return printed ? 0 : report_error("secret", {Code::system, "cannot print the secret"});
}

}  // namespace

void add_secret_command(CLI::App* app, Action* action) {
  CLI::App* command = app->add_subcommand("secret", "Make a secret for a job");
  const auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file,
                      "A new file for it, which only you can read; without one it is printed");
  command->footer(
      "Copy the file to every host, readable for you alone, and set R2CCL_SECRET_FILE to its name\n"
      "for every rank. Example: r2ccl secret ~/.r2ccl-secret");
  command->callback([action, file] { *action = [file] { return run_secret(*file); }; });
}

}  // namespace r2ccl::tools
