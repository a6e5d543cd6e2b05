#include "tools/simulate/sim_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/trial/trial.h"
#include "tools/common/fd.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;

int usable_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

// --- the worker's side ---

json run_seed(uint64_t seed, bool twice) {
  const TrialResult result = run_trial(scenario_of(seed));
  std::string violation = result.violations.empty() ? "" : result.violations.front();
  if (twice && violation.empty() && run_trial(scenario_of(seed)).trace_hash != result.trace_hash) {
    violation = "the seed run again is another run";
  }
  return {{"seed", seed},
          {"violation", violation},
          {"hash", result.trace_hash},
          {"resent", result.seen.resent},
          {"simulated_s", static_cast<double>(result.simulated) / 1e9},
          {"covered", result.covered}};
}

// Ends this process by SIGPROF when it has computed for `time` more, however busy the machine is.
void bound_processor_time(TimeNs time) {
  const timeval bound{.tv_sec = time / kSecond, .tv_usec = time % kSecond / kMicrosecond};
  const itimerval timer{.it_interval = {}, .it_value = bound};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

[[noreturn]] void work(const SimPoolOptions& options, uint64_t first, uint64_t step, int out) {
#ifdef R2CCL_MUTANTS
  active_mutant = options.mutant;
#endif
  std::FILE* pipe = fdopen(out, "w");
  for (uint64_t seed = first; seed <= options.last; seed += step) {
    std::fprintf(pipe, "%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(pipe);
    bound_processor_time(options.seed_time_max);
    std::fprintf(pipe, "%s\n", run_seed(seed, options.twice).dump().c_str());
    std::fflush(pipe);
  }
  std::fclose(pipe);
  _exit(0);
}

// --- the parent's side ---

class Worker {
 public:
  Worker(const SimPoolOptions& options, uint64_t first, uint64_t step)
      : options_(options), next_(first), step_(step) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { end(); }

  bool finished() const { return pid_ < 0 && next_ > options_.last; }
  int fd() const { return pipe_.get(); }

  Status start() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return system_error("make a pipe", errno);
    pipe_ = Fd(ends[0]);
    Fd write_end(ends[1]);
    words_ = Fd(memfd_create("r2ccl-sim", MFD_CLOEXEC));
    pid_ = fork();
    if (pid_ < 0) return system_error("start a worker", errno);
    if (pid_ == 0) {
      dup2(words_.get(), STDERR_FILENO);
      work(options_, next_, step_, write_end.get());
    }
    return {};
  }

  // Reads the worker's output and appends its outcomes. Returns an error if a new worker was needed
  // and could not start.
  Status read(std::vector<SeedOutcome>& outcomes) {
    char buffer[64 * 1024];
    const ssize_t bytes = ::read(pipe_.get(), buffer, sizeof(buffer));
    if (bytes < 0) return errno == EINTR ? Status() : system_error("hear a worker", errno);
    if (bytes == 0) return on_end(outcomes);
    text_.append(buffer, static_cast<size_t>(bytes));
    for (size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      take(text_.substr(0, end), outcomes);
    }
    return {};
  }

 private:
  void take(const std::string& line, std::vector<SeedOutcome>& outcomes) {
    if (line.front() != '{') {
      running_ = std::stoull(line);
      return;
    }
    const json said = json::parse(line);
    SeedOutcome outcome;
    outcome.seed = said.at("seed");
    outcome.violation = said.at("violation");
    outcome.trace_hash = said.at("hash");
    outcome.resent = said.at("resent");
    outcome.simulated_s = said.at("simulated_s");
    outcome.covered = said.at("covered").get<std::vector<std::string>>();
    outcomes.push_back(std::move(outcome));
    running_.reset();
    next_ = outcomes.back().seed + step_;
  }

  Status on_end(std::vector<SeedOutcome>& outcomes) {
    const std::string words = last_words();
    const int status = end();
    if (running_) {
      SeedOutcome outcome;
      outcome.seed = *running_;
      const bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
      outcome.violation = late ? "it does not end" : "it ends the process: " + words;
      if (!late && words.empty()) outcome.violation += "wait status " + std::to_string(status);
      outcomes.push_back(outcome);
      next_ = *running_ + step_;
    }
    running_.reset();
    return next_ <= options_.last ? start() : Status();
  }

  // Returns the last line that the worker wrote to its standard error.
  std::string last_words() const {
    std::string text(4096, '\0');
    const off_t size = lseek(words_.get(), 0, SEEK_END);
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
    const ssize_t bytes = pread(words_.get(), text.data(), text.size(), from);
    text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const size_t line = text.rfind('\n');
    return line == std::string::npos ? text : text.substr(line + 1);
  }

  int end() {
    if (pid_ < 0) return 0;
    kill(pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    pipe_ = Fd();
    return status;
  }

  const SimPoolOptions options_;
  uint64_t next_;
  const uint64_t step_;
  pid_t pid_ = -1;
  Fd pipe_;
  Fd words_;
  std::string text_;
  std::optional<uint64_t> running_;  // the seed that runs now
};

}  // namespace

Status run_seeds(const SimPoolOptions& options,
                 const std::function<bool(const SeedOutcome&)>& on_outcome) {
  const uint64_t seeds = options.last - options.first + 1;
  const int wanted = options.workers > 0 ? options.workers : usable_processors();
  const uint64_t step = std::min(static_cast<uint64_t>(wanted), seeds);
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint64_t i = 0; i < step; ++i) {
    workers.push_back(std::make_unique<Worker>(options, options.first + i, step));
    R2CCL_RETURN_IF_ERROR(workers.back()->start());
  }
  while (true) {
    std::erase_if(workers, [](const auto& worker) { return worker->finished(); });
    if (workers.empty()) return {};
    std::vector<pollfd> polled;
    for (const auto& worker : workers) polled.push_back({worker->fd(), POLLIN, 0});
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
      return system_error("wait for workers", errno);
    }
    std::vector<SeedOutcome> outcomes;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (polled[i].revents != 0) R2CCL_RETURN_IF_ERROR(workers[i]->read(outcomes));
    }
    for (const SeedOutcome& outcome : outcomes) {
      if (!on_outcome(outcome)) return {};
    }
  }
}

}  // namespace r2ccl::tools
