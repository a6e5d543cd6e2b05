#include "tools/admin/drain_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/limits.h"
#include "protocol/admin/drain.h"
#include "runtime/config/secure_random.h"
#include "tools/admin/drain_answer.h"
#include "tools/admin/status_client.h"
#include "tools/admin/status_query.h"
#include "tools/common/command.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

// The library keeps a request for this time: requests of other operators may come first, and each
// takes a second or more if a rank of the job is stopped.
constexpr TimeNs kAnswerTime = limits::kStatusAnswerTime;
// A job of another user may be a forgery. It gets less time, and the command asks only two or three
// of its ranks.
constexpr TimeNs kForeignPatience = 2 * kSecond;
constexpr TimeNs kForeignLimit = 5 * kSecond;
// The wait between two progress queries: it begins at the time of a chunk and grows to the interval
// at which a person would look.
constexpr TimeNs kLookWaitMin = 5 * kMillisecond;
constexpr TimeNs kLookWaitMax = 200 * kMillisecond;

uint64_t make_ticket() {
  uint64_t ticket = 0;
  while (ticket == 0) secure_random(std::as_writable_bytes(std::span(&ticket, 1)));
  return ticket;
}

class DrainRun {
 public:
  explicit DrainRun(DrainOptions options) : options_(std::move(options)) {}
  int run();

 private:
  // A job that has the NIC.
  struct Concerned {
    LocalJob job;
    json answer;  // the latest
  };
  // A job that does not have the NIC, or does not say.
  struct Strange {
    LocalJob job;
    DrainProblem problem;
  };
  struct Found {
    std::vector<StatusPlace> places;
    std::vector<std::string> problems;
    std::vector<LocalJob> jobs;  // jobs that were unknown before
  };
  std::vector<json> ask_all(const std::vector<LocalJob*>& jobs, const std::string& verb);
  json ask(LocalJob& job, const std::string& verb) { return ask_all({&job}, verb).front(); }
  json answer_of(LocalJob& job, JobReply reply) const;
  // Only these users' jobs may refuse a drain: another user could forge sockets that refuse each
  // one.
  bool may_refuse(const LocalJob& job) const {
    return !is_foreign(job.owner) || options_.heeded.contains(job.owner);
  }
  static std::string title(const LocalJob& job);
  void tell_unheeded(const LocalJob& job, const std::string& why) const;
  Found find_new() const;
  std::vector<Strange> check_new(Found& found);
  int find();
  bool find_later();
  int tell_none(const Found& found) const;
  void drop_unheeded();
  std::vector<LocalJob*> all_jobs();
  bool complain_if_last(const Concerned& each) const;
  bool complain_if_unheard(const Concerned& each) const;
  int begin();
  bool begin_later(Concerned& each, TimeNs deadline);
  void take_back();
  void complain_if_kept(const LocalJob& job, const json& answer) const;
  void let_connect(Concerned& each, TimeNs deadline);
  bool is_finished(Concerned& each, json answer) const;
  void finish(std::vector<Concerned*> waiting, TimeNs deadline);
  void tell_done(const Concerned& each) const;
  void tell_obstacles(const Concerned& each) const;
  void complain(const std::string& text) const {
    std::fprintf(stderr, "r2ccl drain: %s\n", printable(text).c_str());
  }
  static void list(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) std::fprintf(stderr, "  %s\n", line.c_str());
  }
  std::string named() const { return options_.host + " " + options_.nic; }
  std::string ticket() const { return ":" + comm_text(ticket_); }

  const DrainOptions options_;
  const uint64_t ticket_ = make_ticket();  // protocol/admin/drain.h
  SystemClock clock_;
  TimeNs began_ = 0;  // the time when the jobs were found
  // The jobs that have been asked, concerned or not, by communicator and user.
  std::set<std::pair<uint64_t, uid_t>> known_;
  std::vector<Concerned> jobs_;
  bool all_done_ = true;
  std::vector<LocalJob> unheeded_;  // jobs that were asked to start the drain, then left out
  TimeNs deadline_ = kNever;
};

std::string DrainRun::title(const LocalJob& job) {
  const std::string user = is_foreign(job.owner) ? " of user " + user_text(job.owner) : "";
  return "job " + comm_text(job.comm) + user;
}

// Asks all jobs at once. Returns an object with `ranks` or with `problem` for each job.
std::vector<json> DrainRun::ask_all(const std::vector<LocalJob*>& jobs, const std::string& verb) {
  const std::string line = "drain " + verb + " " + options_.nic + " " + options_.host + "\n";
  std::vector<JobQuery> queries;
  for (const LocalJob* job : jobs) {
    // In a job that may refuse, each rank in turn gets its time.
    const auto ranks = static_cast<TimeNs>(job->files.size());
    const bool patient = may_refuse(*job);
    queries.push_back({*job, line, patient ? kAnswerTime : kForeignPatience,
                       patient ? kAnswerTime * ranks : kForeignLimit, false});
  }
  std::vector<JobReply> replies = ask_jobs(queries, clock_);
  std::vector<json> answers;
  for (size_t i = 0; i < jobs.size(); ++i) {
    answers.push_back(answer_of(*jobs[i], std::move(replies[i])));
  }
  return answers;
}

// Later queries ask a rank that was silent after the others.
json DrainRun::answer_of(LocalJob& job, JobReply reply) const {
  for (const SilentRank& each : reply.silent) {
    std::stable_partition(job.files.begin(), job.files.end(), [&](const StatusSocketFile& file) {
      return file.path != each.file.path;
    });
  }
  if (!reply.answer.is_null()) return std::move(reply.answer);
  if (reply.silent.empty()) return {{"problem", "it has ended"}, {"unknown", "job"}};
  const SilentRank& last = reply.silent.back();
  return {{"problem", "no rank on this host answers; rank " +
                          std::to_string(last.file.name.rank.value()) + ", pid " +
                          std::to_string(last.file.name.pid) + ": " + last.why},
          {"unknown", "answer"}};
}

void DrainRun::tell_unheeded(const LocalJob& job, const std::string& why) const {
  complain("warning: " + title(job) + ": " + why + "; it cannot refuse without --user " +
           std::to_string(job.owner));
}

int DrainRun::tell_none(const Found& found) const {
  for (const std::string& problem : found.problems) complain(problem);
  const bool chosen = options_.pid != 0 || !options_.comm.empty();
  std::string text = chosen ? "no such running job on this host" : "no running job on this host";
  if (geteuid() != 0) text += ", or it is another user's, which root alone may drain";
  text += "; looked for sockets in";
  for (const StatusPlace& place : found.places) text += " " + place.directory;
  complain(text);
  return kExitFailed;
}

DrainRun::Found DrainRun::find_new() const {
  Found found;
  found.places = status_places(
      [](const char* name) { return static_cast<const char*>(std::getenv(name)); }, geteuid());
  StatusSockets sockets = find_status_sockets(found.places);
  found.jobs = choose_jobs(sockets, options_.pid, options_.comm);
  std::erase_if(found.jobs, [&](const LocalJob& job) {
    // Another user could forge new jobs forever.
    const bool late = clock_.now() >= deadline_ && !may_refuse(job);
    return late || known_.contains({job.comm, job.owner});
  });
  found.problems = std::move(sockets.problems);
  return found;
}

// Adds the jobs that have the NIC to `jobs_`, and returns the others.
std::vector<DrainRun::Strange> DrainRun::check_new(Found& found) {
  std::vector<Strange> strange;
  std::vector<LocalJob*> asked;
  for (LocalJob& job : found.jobs) asked.push_back(&job);
  std::vector<json> answers = ask_all(asked, "check");
  for (size_t i = 0; i < asked.size(); ++i) {
    LocalJob& job = *asked[i];
    const DrainProblem problem = drain_problem(answers[i]);
    if (problem.unknown == "job") continue;
    known_.insert({job.comm, job.owner});
    const bool without = problem.unknown == "host" || problem.unknown == "nic";
    if (problem.why.empty()) {
      jobs_.push_back({std::move(job), std::move(answers[i])});
    } else if (without || may_refuse(job)) {
      strange.push_back({std::move(job), problem});
    } else {
      tell_unheeded(job, problem.why);
    }
  }
  return strange;
}

// Finds the jobs that have the NIC. Returns an exit status other than 0 if there is nothing to do.
int DrainRun::find() {
  Found found = find_new();
  const std::vector<Strange> strange = check_new(found);
  if (jobs_.empty() && strange.empty()) return tell_none(found);
  // Jobs without that host or NIC are no concern of this command, unless no job has the NIC.
  bool unclear = false;
  for (const Strange& each : strange) {
    const bool without = each.problem.unknown == "host" || each.problem.unknown == "nic";
    unclear = unclear || !without;
    if (without && !jobs_.empty()) continue;
    complain(title(each.job) + ": " + each.problem.why);
  }
  return unclear || jobs_.empty() ? kExitError : 0;
}

// A communicator that a process made during the requests may not know of the drain. So the command
// looks for such communicators again while it waits. Returns true if it finds some.
bool DrainRun::find_later() {
  const size_t before = jobs_.size();
  Found found = find_new();
  for (const Strange& each : check_new(found)) {
    if (each.problem.unknown == "host" || each.problem.unknown == "nic") continue;
    complain(title(each.job) + ", which is new: " + each.problem.why);
    all_done_ = false;
  }
  return jobs_.size() > before;
}

// A drain never takes a link's last path, so a drain of that path would never end, and no option
// forces it. Giving a NIC back is never refused.
bool DrainRun::complain_if_last(const Concerned& each) const {
  const std::vector<std::string> stranded = drain_stranded(each.answer);
  if (options_.undo || stranded.empty()) return false;
  complain("refused: " + title(each.job) + " needs " + named());
  list(stranded);
  return true;
}

// A job that has ended is no error.
bool DrainRun::complain_if_unheard(const Concerned& each) const {
  const DrainProblem problem = drain_problem(each.answer);
  if (problem.why.empty() || problem.unknown == "job") return false;
  complain(title(each.job) + ": " + problem.why);
  return true;
}

// Leaves out the jobs that would refuse, or do not answer, and may not refuse.
void DrainRun::drop_unheeded() {
  std::erase_if(jobs_, [&](const Concerned& each) {
    if (may_refuse(each.job)) return false;
    const DrainProblem problem = drain_problem(each.answer);
    const bool needs = !options_.undo && !drain_stranded(each.answer).empty();
    if (problem.why.empty() && !needs) return false;
    if (problem.unknown != "job") {
      tell_unheeded(each.job, needs ? "it needs " + named() : problem.why);
    }
    if (problem.unknown != "job") unheeded_.push_back(each.job);
    return true;
  });
}

std::vector<LocalJob*> DrainRun::all_jobs() {
  std::vector<LocalJob*> jobs;
  for (Concerned& each : jobs_) jobs.push_back(&each.job);
  return jobs;
}

// Asks all jobs for the drain, or none. Returns an exit status other than 0 if that failed. A
// silent job does not prevent giving a NIC back in the other jobs.
int DrainRun::begin() {
  int refused = 0;
  drop_unheeded();
  unheeded_.clear();  // these jobs were asked for nothing yet
  for (const Concerned& each : jobs_) refused += complain_if_last(each) ? 1 : 0;
  if (refused > 0) return kExitFailed;
  int unheard = 0;
  std::vector<json> answers = ask_all(all_jobs(), options_.undo ? "undo" : "start" + ticket());
  for (size_t i = 0; i < jobs_.size(); ++i) jobs_[i].answer = std::move(answers[i]);
  drop_unheeded();
  for (Concerned& each : jobs_) {
    unheard += complain_if_unheard(each) ? 1 : 0;
    // A drain of another NIC at the same time may have been first.
    refused += complain_if_last(each) ? 1 : 0;
  }
  if (options_.undo) all_done_ = unheard == 0;
  if (unheard + refused == 0 && jobs_.empty()) {
    complain("no job has taken " + named() + (options_.undo ? " back" : " out of service"));
    return kExitFailed;
  }
  if (options_.undo || unheard + refused == 0) return 0;
  take_back();
  return refused > 0 ? kExitFailed : kExitError;
}

// The other jobs have the NIC out of service by now, and the command has reported it. A job that
// was found later does not revert that. Returns false if such a job prevents the drain.
bool DrainRun::begin_later(Concerned& each, TimeNs deadline) {
  if (!options_.undo) let_connect(each, deadline);
  if (complain_if_last(each)) return false;
  each.answer = ask(each.job, options_.undo ? "undo" : "start" + ticket());
  const bool unheard = complain_if_unheard(each);
  const bool refused = complain_if_last(each);
  return !unheard && !refused;
}

// Takes back the requests of this command alone, also the unanswered ones, since the rank may have
// acted. A communicator that was made meanwhile may have inherited the drain from another
// communicator of its process.
void DrainRun::take_back() {
  std::vector<LocalJob*> jobs = all_jobs();
  for (LocalJob& job : unheeded_) jobs.push_back(&job);
  Found found = find_new();
  for (LocalJob& job : found.jobs) jobs.push_back(&job);
  const std::vector<json> answers = ask_all(jobs, "back" + ticket());
  for (size_t i = 0; i < jobs.size(); ++i) complain_if_kept(*jobs[i], answers[i]);
}

void DrainRun::complain_if_kept(const LocalJob& which, const json& answer) const {
  const std::string job = title(which) + ": ";
  const DrainProblem problem = drain_problem(answer);
  if (problem.unknown == "job" || problem.unknown == "host" || problem.unknown == "nic") return;
  if (!problem.why.empty()) {
    complain(job + named() + " may be out of service all the same: " + problem.why);
    return;
  }
  const std::vector<std::string> kept = drain_kept(answer);
  if (kept.empty()) return;
  complain(job + named() + " is, or may be, out of service all the same:");
  list(kept);
}

// Returns whether the job needs no more waiting. Keeps the answer if it says something.
bool DrainRun::is_finished(Concerned& each, json answer) const {
  const DrainProblem problem = drain_problem(answer);
  if (problem.unknown == "job") {
    each.answer = {};
    return true;  // the job ended, and all its operations with it
  }
  if (!problem.why.empty()) return false;
  each.answer = std::move(answer);
  return drain_obstacles(each.answer, options_.undo).empty();
}

// Waits for all jobs at once, for each until it is finished or the deadline has passed.
void DrainRun::finish(std::vector<Concerned*> waiting, TimeNs deadline) {
  TimeNs wait = kLookWaitMin;
  while (true) {
    std::vector<LocalJob*> jobs;
    for (Concerned* each : waiting) jobs.push_back(&each->job);
    std::vector<json> answers = ask_all(jobs, "check");
    std::vector<Concerned*> unfinished;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (is_finished(*waiting[i], std::move(answers[i]))) {
        tell_done(*waiting[i]);
      } else {
        unfinished.push_back(waiting[i]);
      }
    }
    waiting = std::move(unfinished);
    if (waiting.empty() || clock_.now() + wait >= deadline) break;
    pause_for(static_cast<double>(wait) / 1e9);
    wait = std::min(2 * wait, kLookWaitMax);
  }
  for (const Concerned* each : waiting) {
    tell_obstacles(*each);
    if (may_refuse(each->job)) all_done_ = false;
  }
}

void DrainRun::tell_done(const Concerned& each) const {
  const DrainSums sums = drain_sums(each.answer);
  const std::string job = printable(title(each.job)) + ": ";
  if (each.answer.is_null()) {
    std::printf("%sended meanwhile\n", job.c_str());
  } else if (options_.undo) {
    std::printf("%s%s is back in service, %.0f of its %.0f paths are up\n", job.c_str(),
                printable(named()).c_str(), sums.up, sums.paths);
  } else {
    std::printf("%s%s is out of service after %.0f ms: nothing is under way on its %.0f paths\n",
                job.c_str(), printable(named()).c_str(),
                static_cast<double>(clock_.now() - began_) / 1e6, sums.paths);
  }
}

void DrainRun::tell_obstacles(const Concerned& each) const {
  complain(title(each.job) + ": " + named() + " is not " +
           (options_.undo ? "back in service" : "out of service") + " yet");
  list(drain_obstacles(each.answer, options_.undo));
}

// The paths of a new communicator may not be up at first.
void DrainRun::let_connect(Concerned& each, TimeNs deadline) {
  while (!drain_stranded(each.answer).empty() && clock_.now() + kLookWaitMax < deadline) {
    pause_for(static_cast<double>(kLookWaitMax) / 1e9);
    each.answer = ask(each.job, "check");
  }
}

int DrainRun::run() {
  if (const int status = find(); status != 0) return status;
  began_ = clock_.now();
  deadline_ = began_ + static_cast<TimeNs>(options_.timeout_s * 1e9);
  if (const int status = begin(); status != 0) return status;
  // A silent socket of another user must not delay the jobs that may refuse.
  for (const bool heeded : {true, false}) {
    std::vector<Concerned*> begun;
    for (Concerned& each : jobs_) {
      if (may_refuse(each.job) == heeded) begun.push_back(&each);
    }
    finish(begun, deadline_);
  }
  for (size_t next = jobs_.size(); find_later();) {
    for (; next < jobs_.size(); ++next) {
      if (begin_later(jobs_[next], deadline_)) {
        finish({&jobs_[next]}, deadline_);
      } else if (may_refuse(jobs_[next].job)) {
        all_done_ = false;
      }
    }
  }
  if (all_done_) return 0;
  if (!options_.undo) {
    complain("it stays asked for: run this again to wait on, or with --undo to take it back");
  }
  return kExitFailed;
}

}  // namespace

int run_drain(const DrainOptions& options) {
  return DrainRun(options).run();
}

}  // namespace r2ccl::tools
