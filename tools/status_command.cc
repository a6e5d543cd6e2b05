// `r2ccl status`: the jobs that have a rank on this host.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "parse.h"
#include "status_client.h"
#include "status_view.h"
#include "text_table.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

// The library gives its ranks three seconds to answer each other.
constexpr TimeNs kAnswerTime = 5 * kSecond;
constexpr double kRateInterval = 0.5;

struct StatusOptions {
  uint32_t pid = 0;  // 0: any
  std::string comm;  // the beginning of its id
  bool watching = false;
  double watch_s = 1;
  bool as_json = false;
  bool paths = false;
};

class StatusCommand {
 public:
  explicit StatusCommand(StatusOptions options) : options_(std::move(options)) {}
  int run();

 private:
  std::vector<LocalJob> find();
  json ask_job(const LocalJob& job);
  json ask_jobs(const std::vector<LocalJob>& jobs);
  static bool has_answered(const json& answer, Rank rank);
  void add_reports(const std::vector<LocalJob>& jobs, json* answers);
  void print(const json& jobs);
  int tell_none() const;

  const StatusOptions options_;
  SystemClock clock_;
  std::vector<StatusPlace> places_;
  std::map<uint64_t, std::string> speakers_;  // by communicator: the socket that answered last
  json before_ = json::object();              // by communicator
  bool printed_ = false;
};

std::vector<LocalJob> StatusCommand::find() {
  places_ = status_places(
      [](const char* name) { return static_cast<const char*>(std::getenv(name)); }, geteuid());
  const StatusSockets found = find_status_sockets(places_);
  for (const std::string& problem : found.problems) {
    if (!printed_) std::fprintf(stderr, "r2ccl status: %s\n", printable(problem).c_str());
  }
  return choose_jobs(found, options_.pid, options_.comm);
}

// Null when no rank of it is there any more.
json StatusCommand::ask_job(const LocalJob& job) {
  std::vector<StatusSocketFile> files = job.files;
  // Whoever answered before is likely to answer at once.
  std::stable_partition(files.begin(), files.end(), [&](const StatusSocketFile& file) {
    return file.path == speakers_[job.comm];
  });
  json silent = json::array();
  for (const StatusSocketFile& file : files) {
    const StatusAnswer answer = ask_status(file, "job\n", kAnswerTime, clock_);
    if (answer.kind == StatusAnswer::Kind::gone) continue;
    json parsed = json::parse(answer.text, nullptr, false);
    if (answer.kind == StatusAnswer::Kind::text && parsed.is_object() &&
        !parsed.contains("problem")) {
      speakers_[job.comm] = file.path;
      return parsed;
    }
    silent.push_back({{"rank", file.name.rank.value()},
                      {"pid", file.name.pid},
                      {"problem", answer.kind == StatusAnswer::Kind::silent ? answer.text
                                  : parsed.is_object() ? parsed.value("problem", json()).dump()
                                                       : "what it says is no JSON"}});
  }
  if (silent.empty()) return nullptr;
  return {{"comm", comm_text(job.comm)}, {"silent", silent}};
}

json StatusCommand::ask_jobs(const std::vector<LocalJob>& jobs) {
  json answers = json::array();
  for (const LocalJob& job : jobs) {
    json answer = ask_job(job);
    if (answer.is_null()) continue;
    const std::string comm = comm_text(job.comm);
    if (before_.contains(comm)) add_rates(before_[comm], &answer);
    before_[comm] = answer;
    answers.push_back(std::move(answer));
  }
  return answers;
}

// Those that are there: a stopped rank would be waited for in vain.
bool StatusCommand::has_answered(const json& answer, Rank rank) {
  for (const json& member : answer.value("members", json::array())) {
    if (member.is_object() && member.value("rank", json()) == rank.value()) {
      return member.value("presence", json()) == "answered";
    }
  }
  return false;
}

void StatusCommand::add_reports(const std::vector<LocalJob>& jobs, json* answers) {
  for (json& answer : *answers) {
    json reports = json::array();
    for (const LocalJob& job : jobs) {
      if (answer.value("comm", json()) != comm_text(job.comm)) continue;
      for (const StatusSocketFile& file : job.files) {
        if (!has_answered(answer, file.name.rank)) continue;
        const StatusAnswer report = ask_status(file, "report\n", kAnswerTime, clock_);
        json parsed = json::parse(report.text, nullptr, false);
        if (report.kind == StatusAnswer::Kind::text && parsed.is_object()) {
          reports.push_back(std::move(parsed));
        }
      }
    }
    answer["reports"] = std::move(reports);
  }
}

void StatusCommand::print(const json& jobs) {
  std::string text;
  if (options_.as_json) {
    text = json{{"jobs", jobs}}.dump() + "\n";
  } else if (options_.watching && isatty(STDOUT_FILENO) != 0) {
    text = "\x1b[H\x1b[2J";
  } else if (printed_) {
    text = "\n";
  }
  for (size_t i = 0; i < jobs.size() && !options_.as_json; ++i) {
    const json& job = jobs[i];
    if (i > 0) text += "\n";
    if (job.contains("silent")) {
      text += "job " + job.value("comm", "") + ": no rank on this host answers\n";
      for (const json& each : job["silent"]) {
        text += "rank " + each.value("rank", json()).dump() + ", pid " +
                each.value("pid", json()).dump() + ": " + printable(each.value("problem", "")) +
                "\n";
      }
      continue;
    }
    text += job_text(job, options_.paths);
    if (!options_.paths) continue;
    for (const json& report : job.value("reports", json::array())) {
      text += "\n" + paths_text(report);
    }
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  printed_ = true;
}

int StatusCommand::tell_none() const {
  if (options_.as_json) std::printf("%s\n", json{{"jobs", json::array()}}.dump().c_str());
  const bool chosen = options_.pid != 0 || !options_.comm.empty();
  std::string text = chosen ? "no such running job on this host" : "no running job on this host";
  text += "; looked for sockets in";
  for (const StatusPlace& place : places_) text += " " + place.directory;
  std::fprintf(stderr, "r2ccl status: %s\n", printable(text).c_str());
  return kExitFailed;
}

int StatusCommand::run() {
  // Rates are differences, so the first answers only serve to be compared with.
  if (!ask_jobs(find()).empty()) pause_for(kRateInterval);
  while (true) {
    const std::vector<LocalJob> jobs = find();
    json answers = ask_jobs(jobs);
    if (answers.empty()) {
      if (!printed_) return tell_none();
      if (!options_.as_json) std::printf("the job has ended\n");
      return 0;
    }
    if (options_.paths || options_.as_json) add_reports(jobs, &answers);
    print(answers);
    if (!options_.watching) return 0;
    pause_for(options_.watch_s);
  }
}

}  // namespace

void add_status_command(CLI::App* app, Action* action) {
  CLI::App* command = app->add_subcommand(
      "status", "Show the running jobs of this host: ranks, NICs, rates, faults");
  auto options = std::make_shared<StatusOptions>();
  auto watch = std::make_shared<std::string>();
  command->add_option("--pid", options->pid, "Only the jobs of this process")
      ->type_name("PID")
      ->check(CLI::Range(1, kPidMax));
  command->add_option("--comm", options->comm, "Only the job whose id begins so")->type_name("ID");
  CLI::Option* watching =
      command->add_option("--watch", *watch, "Again and again, every SECONDS (1 when not given)")
          ->expected(0, 1)
          ->type_name("SECONDS");
  command->add_flag("--json", options->as_json, "One JSON object a line: docs/status.md");
  command->add_flag("--paths", options->paths, "Also every path of the ranks on this host");
  command->footer(
      "Asks one rank on this host, and that one the others. Root sees every user's jobs.\n"
      "Exit status: 0; 1 when no job is found; 2 on an error.");
  command->callback([options, watch, watching, action] {
    options->watching = watching->count() > 0;
    if (!watch->empty()) {
      const std::optional<double> seconds = parse_number(*watch);
      if (!seconds || *seconds < 0.1 || *seconds > 86400) {
        throw CLI::ValidationError("--watch", "SECONDS must be 0.1 to 86400");
      }
      options->watch_s = *seconds;
    }
    *action = [options] { return StatusCommand(*options).run(); };
  });
}

}  // namespace r2ccl::tools
