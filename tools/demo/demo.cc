#include "tools/demo/demo.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.h"
#include "tools/bench/bench_command.h"
#include "tools/common/command.h"
#include "tools/common/rank_group.h"
#include "tools/demo/demo_gloo.h"
#include "tools/demo/demo_rate.h"
#include "tools/demo/demo_record.h"
#include "tools/demo/demo_schedule.h"
#include "tools/demo/demo_screen.h"
#include "tools/demo/demo_stage.h"
#include "tools/demo/demo_watch.h"
#include "tools/lab/lab.h"

namespace r2ccl::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kSampleMs = 100;
constexpr int kEventsMs = 25;  // the precision of a verdict's time
constexpr double kStartLimitS = 30, kEndLimitS = 30;
constexpr size_t kSmoothing = 10;  // samples that make one rate

// A directory for the ranks' streams and results, removed at the end.
class WorkFolder {
 public:
  static Result<WorkFolder> make() {
    std::string pattern = (fs::temp_directory_path() / "r2ccl-demo.XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return system_error(pattern, errno);
    return WorkFolder(pattern);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Returns "2,579,496,960".
std::string with_separators(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

// Returns "4 MB" for "4M".
std::string size_text(const std::string& bytes) {
  const size_t digits = bytes.find_first_not_of("0123456789.");
  if (digits == std::string::npos) return bytes + " bytes";
  return bytes.substr(0, digits) + " " + bytes.substr(digits) + "B";
}

struct Snapshot {
  double t_s = 0;
  uint64_t operations = 0;
  double operations_s = 0;  // the time when the operations were counted
  SentBytes sent;
};

class Demo {
 public:
  Demo(const DemoPlace& place, const BenchOptions& bench, const WorkFolder& folder)
      : options_(place.options),
        bench_(bench),
        stage_(*place.stage),
        folder_(folder),
        schedule_(
            make_demo_schedule(options_.hosts, options_.nics, options_.fault_s, options_.mend_s)),
        watch_(stream_files(options_.hosts, folder_)),
        screen_(isatty(STDOUT_FILENO) == 1, options_.rate_mbit * 1e6 / 8) {
    record_.victim_host = schedule_.victim_host;
    record_.line_bytes_per_s = options_.rate_mbit * 1e6 / 8 * options_.nics;
    record_.remark = place.reason;
    bench_.duration_s = schedule_.end_s;
    bench_.events_file = folder_.file("events.%r");
    bench_.json_file = folder_.file("result.json");
    bench_.events_ms = kEventsMs;
    bench_.op_log_file = folder_.file("operations");
  }

  Result<int> run();

 private:
  static std::vector<std::string> stream_files(int ranks, const WorkFolder& folder) {
    std::vector<std::string> files;
    for (int rank = 0; rank < ranks; ++rank) {
      files.push_back(folder.file("events." + std::to_string(rank)));
    }
    return files;
  }
  double now() const { return static_cast<double>(clock_.now()) / 1e9 - start_s_; }

  Status start_ranks();
  Status wait_for_first_operation();
  Status follow();
  Status do_due_steps();
  void tell_verdicts();
  Status sample();
  DemoSample point_between(const Snapshot& first, const Snapshot& last) const;
  void read_operations();
  std::string result_text(const nlohmann::json& result) const;
  bool is_as_under_gloo() const;
  void remark_on_share();
  int conclude(const Status& status);
  std::string rank_output() const;

  DemoOptions options_;
  BenchOptions bench_;
  DemoStage& stage_;
  const WorkFolder& folder_;
  DemoSchedule schedule_;
  DemoWatch watch_;
  DemoScreen screen_;
  SystemClock clock_;
  RankGroup ranks_;
  DemoRecord record_;
  std::deque<Snapshot> recent_;
  std::vector<BrokenNic> broken_;  // now
  double start_s_ = 0;
  size_t next_step_ = 0;
};

Status Demo::start_ranks() {
  for (int host = 0; host < options_.hosts; ++host) {
    std::string output = folder_.file("output." + std::to_string(host));
    R2CCL_RETURN_IF_ERROR(ranks_.start("", [&] {
      int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) return kExitError;
      return stage_.run_rank(host, [&] { return run_bench_rank(bench_); });
    }));
  }
  return Status::ok_status();
}

Status Demo::wait_for_first_operation() {
  start_s_ = static_cast<double>(clock_.now()) / 1e9;
  while (watch_.operations() == 0) {
    if (!ranks_.attend_for(kSampleMs)) return {Code::remote, "the ranks ended before they began"};
    if (ranks_.interrupted()) return {Code::aborted, "interrupted"};
    if (now() > kStartLimitS) return {Code::timeout, "the job did not start within 30 s"};
    tell_verdicts();
  }
  start_s_ += now();
  return Status::ok_status();
}

Status Demo::do_due_steps() {
  while (next_step_ < schedule_.steps.size() && schedule_.steps[next_step_].at_s <= now()) {
    const DemoStep& step = schedule_.steps[next_step_++];
    bool breaks = !step.fault_label.empty();
    const double t = now();  // before: a verdict may come while the fault is made
    for (const LabTarget& target : step.targets) {
      R2CCL_RETURN_IF_ERROR(breaks ? stage_.fault(target, step.fault) : stage_.fix(target));
    }
    std::string remark = step.remark.empty() ? "" : " " + step.remark;
    screen_.news(t, (breaks ? "FAULT   " : "MENDED  ") + step.announcement + remark, breaks);
    if (breaks) {
      const bool slow = step.fault.kind == FaultKind::slow;
      const double share = slow ? 1 - step.fault.amount / 100 : 1;
      const double lost = share * options_.rate_mbit * 1e6 / 8;
      record_.faults.push_back(
          {t, t, step.announcement, lost * static_cast<double>(step.targets.size()), !slow});
    } else {
      record_.faults.back().end_s = t;
    }
    broken_.clear();
    if (!breaks) continue;
    for (const LabTarget& target : step.targets) {
      for (const LabPort& port : target.ports) {
        broken_.push_back({port.host, port.nic, step.fault_label});
      }
    }
  }
  return Status::ok_status();
}

void Demo::tell_verdicts() {
  for (const DemoVerdict& verdict : watch_.poll()) {
    // The report has the bytes and other details; a line has 100 columns.
    screen_.news(now(), "VERDICT " + verdict.text.substr(0, verdict.text.rfind(", ")), false);
    record_.verdicts.push_back({verdict.t_s - start_s_, verdict.caption});
  }
}

Status Demo::sample() {
  tell_verdicts();
  // A fault that took long to make delays a sample: two samples close together give no rate.
  if (!recent_.empty() && now() - recent_.back().t_s < kSampleMs / 2e3) return Status::ok_status();
  Result<SentBytes> sent = stage_.sent_bytes(watch_);
  if (!sent.ok()) return sent.status();
  recent_.push_back({now(), watch_.operations(), watch_.last_event_s(), std::move(sent.value())});
  if (recent_.size() > kSmoothing + 1) recent_.pop_front();
  if (recent_.size() < 2) return Status::ok_status();
  // The picture shows each tenth of a second, the screen the last second.
  record_.samples.push_back(point_between(recent_[recent_.size() - 2], recent_.back()));
  const DemoSample point = point_between(recent_.front(), recent_.back());
  char status[128];
  std::snprintf(status, sizeof status, "%s ops, %s wrong",
                with_separators(watch_.operations()).c_str(),
                with_separators(watch_.wrong_elements()).c_str());
  screen_.show(point, broken_, status);
  return Status::ok_status();
}

DemoSample Demo::point_between(const Snapshot& first, const Snapshot& last) const {
  DemoSample point{last.t_s, 0, {}};
  const double passed = std::max(last.t_s - first.t_s, 1e-3);
  double factor = bus_factor(Collective::all_reduce, options_.hosts);
  if (double seconds = last.operations_s - first.operations_s; seconds > 0) {
    point.bus_bytes_per_s = static_cast<double>(last.operations - first.operations) *
                            static_cast<double>(bench_.sizes[0]) * factor / seconds;
  }
  for (size_t host = 0; host < last.sent.size(); ++host) {
    std::vector<double> rates;
    for (size_t nic = 0; nic < last.sent[host].size(); ++nic) {
      // On loopback a rank's first line has no NICs yet.
      const bool known = host < first.sent.size() && nic < first.sent[host].size();
      const uint64_t before = known ? first.sent[host][nic] : last.sent[host][nic];
      rates.push_back(static_cast<double>(last.sent[host][nic] - before) / passed);
    }
    point.nic_bytes_per_s.push_back(std::move(rates));
  }
  return point;
}

Status Demo::follow() {
  R2CCL_RETURN_IF_ERROR(start_ranks());
  R2CCL_RETURN_IF_ERROR(wait_for_first_operation());
  while (ranks_.attend_for(kSampleMs)) {
    if (ranks_.interrupted()) return {Code::aborted, "interrupted"};
    if (now() > schedule_.end_s + kEndLimitS) {
      return {Code::timeout, "the job did not end within 30 s of its time"};
    }
    R2CCL_RETURN_IF_ERROR(do_due_steps());
    if (now() <= schedule_.end_s) R2CCL_RETURN_IF_ERROR(sample());
  }
  return Status::ok_status();
}

// Returns the output of the ranks, for a failure.
std::string Demo::rank_output() const {
  std::string text;
  for (int host = 0; host < options_.hosts; ++host) {
    std::ifstream in(folder_.file("output." + std::to_string(host)));
    std::string line;
    while (std::getline(in, line)) text += "  h" + std::to_string(host) + ": " + line + "\n";
  }
  return text;
}

int Demo::conclude(const Status& status) {
  ranks_.signal_all(SIGKILL);
  int worst = ranks_.attend();
  std::ifstream in(bench_.json_file);
  auto result = nlohmann::json::parse(in, nullptr, false);
  bool good = status.ok() && worst == 0 && result.is_object() &&
              result.value("wrong_elements", uint64_t{1}) == 0;
  record_.title = result.is_object() ? result_text(result) : "The job did not come to its end.";
  read_operations();
  remark_on_share();
  std::printf("\n%s\n", record_.title.c_str());
  if (!good) std::fputs(rank_output().c_str(), stderr);
  if (good && !options_.json_file.empty()) {
    std::error_code error;
    fs::copy_file(bench_.json_file, options_.json_file, fs::copy_options::overwrite_existing,
                  error);
    if (error) report_error("demo", {Code::system, "cannot write " + options_.json_file});
  }
  return good ? 0 : kExitFailed;
}

std::string Demo::result_text(const nlohmann::json& result) const {
  size_t dead = 0, slow = 0;
  for (size_t i = 0; i < next_step_; ++i) {
    const DemoStep& step = schedule_.steps[i];
    if (step.fault_label.empty()) continue;
    (step.fault.kind == FaultKind::slow ? slow : dead) += step.targets.size();
  }
  return std::to_string(dead) + " dead NICs, " + std::to_string(slow) + " slow one. " +
         with_separators(result.value("operations", uint64_t{0})) + " AllReduces. " +
         with_separators(result.value("checked_elements", uint64_t{0})) + " elements checked. " +
         with_separators(result.value("wrong_elements", uint64_t{0})) + " wrong.";
}

// Reads the log of rank 0, which has the time of each operation: finer than samples.
void Demo::read_operations() {
  std::ifstream in(bench_.op_log_file);
  const double factor = bus_factor(Collective::all_reduce, options_.hosts);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    double number = 0, bytes = 0, begin = 0, since = 0, micros = 0;
    if (!(words >> number >> bytes >> begin >> since >> micros)) continue;
    const double start = begin - start_s_;
    record_.bus.add(std::max(start, 0.0), start + micros / 1e6, bytes * factor);
  }
}

// Returns whether the curve under Gloo is that of this job in percent of the line: hosts, NICs and
// schedule are the same, and an operation takes about as long.
bool Demo::is_as_under_gloo() const {
  const DemoOptions usual;
  const double bytes_at_that_rate =
      static_cast<double>(bench_.sizes[0]) * kDemoGlooRateMbit / options_.rate_mbit;
  return !options_.loopback && options_.hosts == usual.hosts && options_.nics == usual.nics &&
         options_.fault_s == usual.fault_s && options_.mend_s == usual.mend_s &&
         bytes_at_that_rate > kDemoBytes / 2.5 && bytes_at_that_rate < kDemoBytes * 2.5;
}

// A curve far below its line would mislead beside one that was measured on a quiet machine.
void Demo::remark_on_share() {
  constexpr double kShareMin = 0.7;
  const double share = share_without_faults(record_);
  if (options_.loopback || share <= 0 || share >= kShareMin) return;
  char words[160];
  std::snprintf(words, sizeof words,
                "With every NIC at work this machine drove %.0f %% of the line: it was busy, and "
                "the curve shows that too.",
                share * 100);
  record_.remark = words;
  std::printf("\n%s\n", words);
}

Result<int> Demo::run() {
  char title[160];
  std::snprintf(title, sizeof title, "r2ccl: AllReduce over %d hosts x %d NICs x %g Mbit/s%s",
                options_.hosts, options_.nics, options_.rate_mbit,
                options_.loopback ? " (simulated on loopback)" : "");
  record_.subtitle = std::string(title) + ", " + size_text(options_.bytes) +
                     " each. All faults hit host h" + std::to_string(schedule_.victim_host) +
                     ". The rate includes the time for checking.";
  if (is_as_under_gloo()) {
    for (float mbps : demo_gloo_mbps()) record_.other.bytes_per_s.push_back(mbps * 1e6);
    record_.other_line_bytes_per_s = kDemoGlooRateMbit * 1e6 / 8 * options_.nics;
    char line[64];
    std::snprintf(line, sizeof line, ", %d NICs x %g Mbit/s, in percent of its line", options_.nics,
                  kDemoGlooRateMbit);
    record_.other_name = std::string(demo_gloo_source()) + line;
  }
  if (!record_.remark.empty()) std::printf("%s\n", record_.remark.c_str());
  std::printf(
      "%s, %s each,\nevery element checked on every rank (the rates include the time for that)\n",
      title, size_text(options_.bytes).c_str());
  Status status = follow();
  int exit_status = conclude(status);
  if (!record_.faults.empty() && record_.faults.back().end_s == record_.faults.back().start_s) {
    record_.faults.back().end_s = now();  // the demo ended before the repair
  }
  std::ofstream out(options_.svg_file);
  out << draw_demo(record_);
  out.close();
  if (out) std::printf("picture: %s\n", options_.svg_file.c_str());
  if (!out) report_error("demo", {Code::system, "cannot write " + options_.svg_file});
  if (!status.ok()) return status;
  return exit_status;
}

}  // namespace

Result<int> run_demo(const DemoOptions& options) {
  if (!options.bytes.empty()) {
    BenchOptions checked;
    checked.bytes_min = options.bytes;
    R2CCL_RETURN_IF_ERROR(resolve(&checked));
  }
  Result<WorkFolder> folder = WorkFolder::make();
  if (!folder.ok()) return folder.status();
  DemoOptions chosen = options;
  if (!chosen.loopback) {
    Status lab = Lab::available();
    chosen.loopback = !lab.ok();
    if (!lab.ok()) std::printf("No lab can be made here: %s\n", lab.message().c_str());
  }
  if (chosen.loopback) {
    std::printf(
        "FALLBACK: the hosts are processes on loopback, their NICs are addresses, and the library\n"
        "acts out the faults and the rates itself. This shows how it behaves; its figures mean "
        "nothing.\n");
  }
  const auto make = [&](const DemoOptions& o) {
    return o.loopback ? make_loopback_stage(o, folder.value().file("faults")) : make_lab_stage(o);
  };
  Result<DemoPlace> place = find_demo_place(chosen, make, folder.value().file(""));
  if (!place.ok()) return place.status();
  BenchOptions bench;
  bench.bytes_min = place.value().options.bytes;
  bench.check_text = "1";
  bench.duration_s = 1;  // the schedule sets it later
  R2CCL_RETURN_IF_ERROR(resolve(&bench));
  Demo demo(place.value(), bench, folder.value());
  return demo.run();
}

}  // namespace r2ccl::tools
