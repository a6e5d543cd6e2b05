// The command line of `r2ccl drain`.
#include <pwd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/admin/drain.h"
#include "runtime/bootstrap/rank_info.h"
#include "tools/admin/drain_run.h"
#include "tools/admin/status_client.h"
#include "tools/common/command.h"
#include "tools/common/parse.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {
namespace {

// Returns the reason why nothing can have this name, because it would not pass as part of a
// request; empty if it may.
std::string name_problem(const std::string& text, size_t bytes_max, const char* never) {
  const bool possible =
      !text.empty() && text.size() <= bytes_max && text.find_first_of(never) == std::string::npos;
  return possible ? "" : "'" + printable(text) + "' cannot be a name";
}

std::optional<uid_t> user_id(const std::string& text) {
  if (const passwd* entry = getpwnam(text.c_str()); entry != nullptr) return entry->pw_uid;
  const std::optional<int> number = parse_int(text);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<uid_t>(*number);
}

}  // namespace

void add_drain_command(CLI::App* app, Action* action) {
  CLI::App* command = app->add_subcommand(
      "drain", "Take a NIC of running jobs out of service, so that its cable may be pulled");
  auto options = std::make_shared<DrainOptions>();
  command->add_option("HOST", options->host, "The host, as `r2ccl status` calls it")
      ->required()
      ->check(CLI::Validator(
          [](const std::string& text) { return name_problem(text, kHostNameBytesMax, "\n"); }, ""));
  command->add_option("NIC", options->nic, "Its NIC")
      ->required()
      ->check(CLI::Validator(
          [](const std::string& text) { return name_problem(text, kDrainNicBytesMax, " \n"); },
          ""));
  command->add_flag("--undo", options->undo, "Give it back");
  command->add_option("--pid", options->pid, "Only the jobs of this process")
      ->type_name("PID")
      ->check(CLI::Range(1, kPidMax));
  command->add_option("--comm", options->comm, "Only the job whose id begins so")->type_name("ID");
  command->add_option("--timeout", options->timeout_s, "How long to wait for its end")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  auto users = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("--user", *users,
                   "Another user, by name or number, whose jobs may refuse it too (for root)")
      ->type_name("USER");
  command->footer(
      "Returns when every rank has stopped using the NIC and nothing is under way on it. Asks one\n"
      "rank on this host, and that one the others; root drains every user's jobs, but only its\n"
      "own and those of --user can refuse. The last NIC between two hosts is refused.\n"
      "Exit status: 0; 1 when it is refused, not done in time, or no job is found; 2 on an error.");
  command->callback([options, users, action] {
    for (const std::string& text : *users) {
      const std::optional<uid_t> uid = user_id(text);
      if (!uid) throw CLI::ValidationError("--user", "there is no user '" + printable(text) + "'");
      options->heeded.insert(*uid);
    }
    *action = [options] { return run_drain(*options); };
  });
}

}  // namespace r2ccl::tools
