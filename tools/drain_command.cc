// `r2ccl drain`: takes a NIC of running jobs out of service, so that its cable may be pulled, and
// gives it back.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/limits.h"
#include "command.h"
#include "drain_answer.h"
#include "protocol/drain.h"
#include "runtime/rank_card.h"
#include "status_client.h"
#include "text_table.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

// As long as the library keeps a request: other operators' requests may come first, and with a
// stopped rank in the job each takes a second or more.
constexpr TimeNs kAnswerTime = limits::kStatusAnswerTime;
// Between two looks at how far it is: at first as long as a chunk takes, then as people look.
constexpr TimeNs kLookWaitMin = 5 * kMillisecond;
constexpr TimeNs kLookWaitMax = 200 * kMillisecond;

// Why nothing can have this name, which would not pass as part of a request; empty: it may.
std::string name_problem(const std::string& text, size_t bytes_max, const char* never) {
  const bool possible =
      !text.empty() && text.size() <= bytes_max && text.find_first_of(never) == std::string::npos;
  return possible ? "" : "'" + printable(text) + "' cannot be a name";
}

struct DrainOptions {
  std::string host;
  std::string nic;
  bool undo = false;
  uint32_t pid = 0;  // 0: any
  std::string comm;  // the beginning of its id
  double timeout_s = 10;
};

class DrainCommand {
 public:
  explicit DrainCommand(DrainOptions options) : options_(std::move(options)) {}
  int run();

 private:
  // A job that has the NIC.
  struct Concerned {
    LocalJob job;
    json answer;         // the latest
    bool begun = false;  // before this command said anything
  };
  json ask(const LocalJob& job, const char* verb);
  int find();
  int tell_none(const StatusSockets& found, const std::vector<StatusPlace>& places) const;
  void let_connect(TimeNs deadline);
  bool refuse_last() const;
  int begin();
  void take_back();
  bool await(Concerned& each, TimeNs deadline);
  void tell_done(const Concerned& each, TimeNs took) const;
  void tell_obstacles(const Concerned& each) const;
  void complain(const std::string& text) const {
    std::fprintf(stderr, "r2ccl drain: %s\n", printable(text).c_str());
  }
  std::string named() const { return options_.host + " " + options_.nic; }

  const DrainOptions options_;
  SystemClock clock_;
  std::vector<Concerned> jobs_;
  size_t settled_ = 0;  // of jobs_: nothing more is to be done about the first so many
};

// An object with `ranks`, or with `problem` where there are none.
json DrainCommand::ask(const LocalJob& job, const char* verb) {
  const std::string line =
      std::string("drain ") + verb + " " + options_.nic + " " + options_.host + "\n";
  std::string why;
  for (const StatusSocketFile& file : job.files) {
    const StatusAnswer answer = ask_status(file, line, kAnswerTime, clock_);
    if (answer.kind == StatusAnswer::Kind::gone) continue;
    json parsed = json::parse(answer.text, nullptr, false);
    if (answer.kind == StatusAnswer::Kind::text && parsed.is_object()) return parsed;
    why = "rank " + std::to_string(file.name.rank.value()) + ", pid " +
          std::to_string(file.name.pid) + ": " +
          (answer.kind == StatusAnswer::Kind::silent ? answer.text : "what it says is no JSON");
  }
  if (why.empty()) return {{"problem", "it has ended"}, {"unknown", "job"}};
  return {{"problem", "no rank on this host answers; " + why}, {"unknown", "answer"}};
}

int DrainCommand::tell_none(const StatusSockets& found,
                            const std::vector<StatusPlace>& places) const {
  for (const std::string& problem : found.problems) complain(problem);
  const bool chosen = options_.pid != 0 || !options_.comm.empty();
  std::string text = chosen ? "no such running job on this host" : "no running job on this host";
  if (geteuid() != 0) text += ", or it is another user's, which root alone may drain";
  text += "; looked for sockets in";
  for (const StatusPlace& place : places) text += " " + place.directory;
  complain(text);
  return kExitFailed;
}

// Adds to `jobs_` what is not there; an exit status other than 0 when there is nothing to be done.
int DrainCommand::find() {
  const std::vector<StatusPlace> places = status_places(
      [](const char* name) { return static_cast<const char*>(std::getenv(name)); }, geteuid());
  const StatusSockets found = find_status_sockets(places);
  // Jobs without that host or NIC are none of this command's business, unless no other has it.
  std::string strange;
  for (LocalJob& job : choose_jobs(found, options_.pid, options_.comm)) {
    const bool known = std::ranges::any_of(
        jobs_, [&](const Concerned& each) { return each.job.comm == job.comm; });
    if (known) continue;
    json answer = ask(job, "check");
    const DrainProblem problem = drain_problem(answer);
    if (problem.why.empty()) {
      const bool begun = drain_begun(answer);
      jobs_.push_back({std::move(job), std::move(answer), begun});
      continue;
    }
    if (problem.unknown == "job") continue;
    strange = "job " + comm_text(job.comm) + ": " + problem.why;
    if (problem.unknown == "host" || problem.unknown == "nic") continue;
    complain(strange);
    return kExitError;
  }
  if (!jobs_.empty()) return 0;
  if (strange.empty()) return tell_none(found, places);
  complain(strange);
  return kExitError;
}

// A drain never costs a link its last path, so such a one would not come to its end: there is no
// way to force it.
bool DrainCommand::refuse_last() const {
  bool refused = false;
  for (size_t i = settled_; i < jobs_.size(); ++i) {
    const Concerned& each = jobs_[i];
    const std::vector<std::string> stranded = drain_stranded(each.answer);
    if (stranded.empty()) continue;
    refused = true;
    complain("refused: job " + comm_text(each.job.comm) + " needs " + named());
    for (const std::string& line : stranded) std::fprintf(stderr, "  %s\n", line.c_str());
  }
  return refused;
}

// Asks for it; an exit status other than 0 when that was in vain, and then nothing has changed.
int DrainCommand::begin() {
  bool heard = true;
  for (size_t i = settled_; i < jobs_.size(); ++i) {
    Concerned& each = jobs_[i];
    each.answer = ask(each.job, options_.undo ? "undo" : "start");
    const DrainProblem problem = drain_problem(each.answer);
    if (problem.why.empty() || problem.unknown == "job") continue;
    complain("job " + comm_text(each.job.comm) + ": " + problem.why);
    heard = false;
  }
  // Who drains another NIC at this moment may have been first.
  const bool refused = !options_.undo && refuse_last();
  if (heard && !refused) return 0;
  if (!options_.undo) take_back();
  return refused ? kExitFailed : kExitError;
}

// Not of those that were out of service before.
void DrainCommand::take_back() {
  for (size_t i = settled_; i < jobs_.size(); ++i) {
    if (!jobs_[i].begun) (void)ask(jobs_[i].job, "undo");
  }
}

bool DrainCommand::await(Concerned& each, TimeNs deadline) {
  TimeNs wait = kLookWaitMin;
  while (true) {
    const json answer = ask(each.job, "check");
    const DrainProblem problem = drain_problem(answer);
    if (problem.unknown == "job") {
      each.answer = {};
      return true;  // with it, all that was under way
    }
    const bool known = problem.why.empty();
    if (known) each.answer = answer;
    if (known && drain_obstacles(answer, options_.undo).empty()) return true;
    if (clock_.now() + wait >= deadline) return false;
    pause_for(static_cast<double>(wait) / 1e9);
    wait = std::min(2 * wait, kLookWaitMax);
  }
}

void DrainCommand::tell_done(const Concerned& each, TimeNs took) const {
  const DrainSums sums = drain_sums(each.answer);
  const std::string job = "job " + comm_text(each.job.comm) + ": ";
  if (each.answer.is_null()) {
    std::printf("%sended meanwhile\n", job.c_str());
  } else if (options_.undo) {
    std::printf("%s%s is back in service, %.0f of its %.0f paths are up\n", job.c_str(),
                printable(named()).c_str(), sums.up, sums.paths);
  } else {
    std::printf("%s%s is out of service after %.0f ms: nothing is under way on its %.0f paths\n",
                job.c_str(), printable(named()).c_str(), static_cast<double>(took) / 1e6,
                sums.paths);
  }
}

void DrainCommand::tell_obstacles(const Concerned& each) const {
  complain("job " + comm_text(each.job.comm) + ": " + named() + " is not " +
           (options_.undo ? "back in service" : "out of service") + " yet");
  for (const std::string& line : drain_obstacles(each.answer, options_.undo)) {
    std::fprintf(stderr, "  %s\n", line.c_str());
  }
}

// A communicator that was made while the others were told may not have heard of it: so whoever
// waits for its end looks for such once more. Their paths may not be up at first.
void DrainCommand::let_connect(TimeNs deadline) {
  for (size_t i = settled_; i < jobs_.size(); ++i) {
    Concerned& each = jobs_[i];
    while (!drain_stranded(each.answer).empty() && clock_.now() + kLookWaitMax < deadline) {
      pause_for(static_cast<double>(kLookWaitMax) / 1e9);
      each.answer = ask(each.job, "check");
    }
  }
}

int DrainCommand::run() {
  if (const int status = find(); status != 0) return status;
  const TimeNs began = clock_.now();
  const auto deadline = began + static_cast<TimeNs>(options_.timeout_s * 1e9);
  bool all = true;
  while (settled_ < jobs_.size()) {
    if (settled_ > 0 && !options_.undo) let_connect(deadline);
    if (!options_.undo && refuse_last()) return kExitFailed;
    if (const int status = begin(); status != 0) return status;
    for (; settled_ < jobs_.size(); ++settled_) {
      Concerned& each = jobs_[settled_];
      if (await(each, deadline)) {
        tell_done(each, clock_.now() - began);
      } else {
        tell_obstacles(each);
        all = false;
      }
    }
    if (const int status = find(); status != 0) return status;
  }
  if (all) return 0;
  if (!options_.undo) {
    complain("it stays asked for: run this again to wait on, or with --undo to take it back");
  }
  return kExitFailed;
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
      ->check(CLI::Range(1, kPidMax));
  command->add_option("--comm", options->comm, "Only the job whose id begins so");
  command->add_option("--timeout", options->timeout_s, "How long to wait for its end, in seconds")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->footer(
      "Returns when every rank has stopped using the NIC and nothing is under way on it. Asks one\n"
      "rank on this host, and that one the others; root drains every user's jobs. The last NIC\n"
      "between two hosts is refused.\n"
      "Exit status: 0; 1 when it is refused, not done in time, or no job is found; 2 on an error.");
  command->callback(
      [options, action] { *action = [options] { return DrainCommand(*options).run(); }; });
}

}  // namespace r2ccl::tools
