// `r2ccl status`: the jobs that have a rank on this host.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/admin/status_client.h"
#include "tools/admin/status_metrics_run.h"
#include "tools/admin/status_nccl_view.h"
#include "tools/admin/status_query.h"
#include "tools/admin/status_view.h"
#include "tools/common/command.h"
#include "tools/common/parse.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

// The time that a job has to answer. The library gives its ranks three seconds to answer each
// other.
struct Limits {
  TimeNs patience = 0;
  TimeNs first_look = 0;  // without an answer to this query there are no rates
  TimeNs look = 0;
  TimeNs report = 0;
};
constexpr Limits kOwnJobs{1500 * kMillisecond, 3 * kSecond, 6 * kSecond, 5 * kSecond};
// Limits for other users' jobs: they cost root less than five seconds in all, even if their sockets
// misbehave.
constexpr Limits kForeignJobs{600 * kMillisecond, 1200 * kMillisecond, 2200 * kMillisecond,
                              400 * kMillisecond};
constexpr double kRateInterval = 0.5;
constexpr double kMetricsInterval = 15;

struct StatusOptions {
  uint32_t pid = 0;  // 0: any
  std::string comm;  // the beginning of its id
  bool watching = false;
  double watch_s = 1;
  bool as_json = false;
  bool paths = false;
  bool metrics = false;
};

class StatusCommand {
 public:
  explicit StatusCommand(StatusOptions options) : options_(std::move(options)) {}
  int run();

 private:
  std::vector<LocalJob> find();
  bool chosen() const { return options_.pid != 0 || !options_.comm.empty(); }
  const Limits& limits_of(const LocalJob& job) const;
  json ask(const std::vector<LocalJob>& jobs, TimeNs Limits::*limit);
  static bool has_answered(const json& answer, Rank rank);
  void add_reports(const std::vector<LocalJob>& jobs, json* answers);
  void print(const json& jobs);
  std::string text_of(const json& job) const;
  void tell_silent_users(const json& jobs) const;
  int tell_none() const;

  const StatusOptions options_;
  SystemClock clock_;
  std::vector<StatusPlace> places_;
  // The socket that answered last, and the latest answer, by communicator and user.
  std::map<std::pair<uint64_t, uid_t>, std::string> speakers_;
  std::map<std::pair<uint64_t, uid_t>, json> before_;
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

// A caller who selects a job by its id or process waits for it as for a job of his own.
const Limits& StatusCommand::limits_of(const LocalJob& job) const {
  return is_foreign(job.owner) && !chosen() ? kForeignJobs : kOwnJobs;
}

json StatusCommand::ask(const std::vector<LocalJob>& jobs, TimeNs Limits::*limit) {
  std::vector<JobQuery> queries;
  for (const LocalJob& job : jobs) {
    const Limits& limits = limits_of(job);
    queries.push_back({job, "job\n", limits.patience, limits.*limit, true});
    // The rank that answered before is likely to answer at once.
    std::vector<StatusSocketFile>& files = queries.back().job.files;
    std::stable_partition(files.begin(), files.end(), [&](const StatusSocketFile& file) {
      return file.path == speakers_[{job.comm, job.owner}];
    });
  }
  std::vector<JobReply> replies = ask_jobs(queries, clock_);
  json answers = json::array();
  for (size_t i = 0; i < jobs.size(); ++i) {
    JobReply& reply = replies[i];
    const std::pair key(jobs[i].comm, jobs[i].owner);
    json answer = std::move(reply.answer);
    if (answer.is_null() && reply.silent.empty()) continue;  // the job has ended
    if (answer.is_null()) {
      json silent = json::array();
      for (const SilentRank& each : reply.silent) {
        silent.push_back({{"rank", each.file.name.rank.value()},
                          {"pid", each.file.name.pid},
                          {"problem", each.why}});
      }
      answer = {{"silent", silent}};
    } else {
      speakers_[key] = reply.speaker.path;
      answer.erase("silent");
      if (const auto before = before_.find(key); before != before_.end()) {
        add_rates(before->second, &answer);
      }
      before_[key] = answer;
    }
    // The socket's name and directory identify the job; its answer is no proof.
    answer["comm"] = comm_text(jobs[i].comm);
    answer["uid"] = jobs[i].owner;
    answers.push_back(std::move(answer));
  }
  return answers;
}

// Leaves out ranks that gave no answer: a stopped rank would cost the whole limit.
bool StatusCommand::has_answered(const json& answer, Rank rank) {
  if (is_nccl(answer)) return true;  // its answer has no other process
  for (const json& member : answer.value("members", json::array())) {
    if (member.is_object() && member.value("rank", json()) == rank.value()) {
      return member.value("presence", json()) == "answered";
    }
  }
  return false;
}

void StatusCommand::add_reports(const std::vector<LocalJob>& jobs, json* answers) {
  std::vector<JobQuery> queries;
  std::vector<json*> described;  // for each query, the answer that the report belongs to
  for (json& answer : *answers) {
    answer["reports"] = json::array();
    for (const LocalJob& job : jobs) {
      if (answer["comm"] != comm_text(job.comm) || answer["uid"] != job.owner) continue;
      for (const StatusSocketFile& file : job.files) {
        if (!has_answered(answer, file.name.rank)) continue;
        const Limits& limits = limits_of(job);
        queries.push_back(
            {{job.comm, job.owner, {file}}, "report\n", limits.report, limits.report});
        described.push_back(&answer);
      }
    }
  }
  std::vector<JobReply> replies = ask_jobs(queries, clock_);
  for (size_t i = 0; i < replies.size(); ++i) {
    if (replies[i].answer.is_null()) continue;
    (*described[i])["reports"].push_back(std::move(replies[i].answer));
  }
}

// Returns an empty text for a silent job of another user: tell_silent_users() counts these jobs.
std::string StatusCommand::text_of(const json& job) const {
  const uid_t owner = job.value("uid", uid_t(0));
  std::string text;
  if (job.contains("silent")) {
    if (is_foreign(owner) && !chosen()) return "";
    text = "job " + job.value("comm", "") + ": no rank on this host answers\n";
    for (const json& each : job["silent"]) {
      text += "rank " + each.value("rank", json()).dump() + ", pid " +
              each.value("pid", json()).dump() + ": " + printable(each.value("problem", "")) + "\n";
    }
    return text;
  }
  if (is_foreign(owner)) text = "of user " + printable(user_text(owner)) + ":\n";
  text += job_text(job, options_.paths);
  if (!options_.paths) return text;
  for (const json& report : job.value("reports", json::array())) {
    text += "\n" + paths_text(report);
  }
  return text;
}

// Prints one line for each user, however many sockets he has.
void StatusCommand::tell_silent_users(const json& jobs) const {
  if (chosen()) return;
  std::map<uid_t, size_t> silent;
  for (const json& job : jobs) {
    const uid_t owner = job.value("uid", uid_t(0));
    if (job.contains("silent") && is_foreign(owner)) silent[owner] += job["silent"].size();
  }
  for (const auto& [owner, count] : silent) {
    std::fprintf(stderr,
                 "r2ccl status: %zu sockets of user %s gave no answer in time; --comm or --pid "
                 "waits longer for one job\n",
                 count, printable(user_text(owner)).c_str());
  }
}

void StatusCommand::print(const json& jobs) {
  std::string text;
  if (options_.as_json) {
    text = json_line({{"jobs", jobs}}) + "\n";
  } else if (options_.watching && isatty(STDOUT_FILENO) != 0) {
    text = "\x1b[H\x1b[2J";
  } else if (printed_) {
    text = "\n";
  }
  bool first = true;
  for (size_t i = 0; i < jobs.size() && !options_.as_json; ++i) {
    const std::string job = text_of(jobs[i]);
    if (job.empty()) continue;
    text += (first ? "" : "\n") + job;
    first = false;
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  tell_silent_users(jobs);
  printed_ = true;
}

int StatusCommand::tell_none() const {
  if (options_.as_json) std::printf("%s\n", json_line({{"jobs", json::array()}}).c_str());
  std::string text = chosen() ? "no such running job on this host" : "no running job on this host";
  text += "; looked for sockets in";
  for (const StatusPlace& place : places_) text += " " + place.directory;
  std::fprintf(stderr, "r2ccl status: %s\n", printable(text).c_str());
  return kExitFailed;
}

int StatusCommand::run() {
  // Rates are differences, so the first answers only serve as a reference.
  if (!ask(find(), &Limits::first_look).empty()) pause_for(kRateInterval);
  while (true) {
    const std::vector<LocalJob> jobs = find();
    json answers = ask(jobs, &Limits::look);
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
  CLI::Option* as_json =
      command->add_flag("--json", options->as_json, "One JSON object a line: docs/status.md");
  CLI::Option* paths =
      command->add_flag("--paths", options->paths, "Also every path of the ranks on this host");
  auto output = std::make_shared<std::string>();
  CLI::Option* prometheus =
      command
          ->add_flag("--prometheus", options->metrics,
                     "Metrics of the ranks on this host, in Prometheus's text "
                     "format: docs/metrics.md")
          ->excludes(as_json)
          ->excludes(paths);
  command
      ->add_option("--output", *output,
                   "Write the metrics to FILE, which changes as a whole; with --watch every "
                   "SECONDS (15 when not given), whether jobs run or not")
      ->type_name("FILE")
      ->check([](const std::string& file) { return file.empty() ? "FILE has no name" : ""; })
      ->needs(prometheus);
  command->footer(
      "Asks one rank on this host, and that one the others. Root sees every user's jobs.\n"
      "Exit status: 0; 1 when no job is found, except for metrics; 2 on an error.");
  command->callback([options, watch, watching, output, action] {
    options->watching = watching->count() > 0;
    if (!watch->empty()) {
      const std::optional<double> seconds = parse_number(*watch);
      if (!seconds || *seconds < 0.1 || *seconds > 86400) {
        throw CLI::ValidationError("--watch", "SECONDS must be 0.1 to 86400");
      }
      options->watch_s = *seconds;
    }
    if (!options->metrics) {
      *action = [options] { return StatusCommand(*options).run(); };
      return;
    }
    if (options->watching && output->empty()) {
      throw CLI::ValidationError("--watch", "with --prometheus it needs --output");
    }
    const double interval_s = watch->empty() ? kMetricsInterval : options->watch_s;
    *action = [options, output, interval_s] {
      return run_metrics({options->pid, options->comm, *output, options->watching, interval_s});
    };
  });
}

}  // namespace r2ccl::tools
