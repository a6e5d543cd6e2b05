#include "lab_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "fd.h"
#include "process.h"

namespace r2ccl::tools {
namespace {

Status exec_program(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  return system_error("cannot run " + argv[0], errno);
}

// One rank of a job: its process, and its output when lines are to be prefixed.
struct RankProcess {
  pid_t pid = -1;
  bool running = false;
  Fd output;
  std::string prefix;
  std::string partial_line;
};

void set_rank_environment(const Lab& lab, const LabJob& job, int host, int local) {
  auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  int procs = job.procs_per_host;
  set("RANK", std::to_string(host * procs + local));
  set("WORLD_SIZE", std::to_string(lab.spec().host_count() * procs));
  set("LOCAL_RANK", std::to_string(local));
  set("LOCAL_WORLD_SIZE", std::to_string(procs));
  set("MASTER_ADDR", "h0");
  set("MASTER_PORT", std::to_string(job.master_port));
  set("HOST", "h" + std::to_string(host));
}

Result<RankProcess> start_rank(const Lab& lab, const LabJob& job, int host, int local) {
  RankProcess rank;
  int ends[2] = {-1, -1};
  if (job.prefix_lines && pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  rank.output = Fd(ends[0]);
  Fd child_end(ends[1]);
  rank.prefix = "h" + std::to_string(host);
  if (job.procs_per_host > 1) rank.prefix += "." + std::to_string(local);
  Result<pid_t> pid = spawn_in_host(lab, host, [&] {
    // Ranks are in the background of the terminal, where reading would stop them.
    if (int null = open("/dev/null", O_RDONLY | O_CLOEXEC); null >= 0) dup2(null, 0);
    if (child_end.valid()) {
      dup2(child_end.get(), 1);
      dup2(child_end.get(), 2);
    }
    set_rank_environment(lab, job, host, local);
    Status status = exec_program(job.argv);
    std::fprintf(stderr, "r2ccl lab: %s\n", status.message().c_str());
    return 127;
  });
  if (!pid.ok()) return pid.status();
  rank.pid = pid.value();
  rank.running = true;
  return rank;
}

void print_lines(RankProcess* rank, bool at_end) {
  size_t newline = 0;
  while ((newline = rank->partial_line.find('\n')) != std::string::npos) {
    std::printf("%s: %s\n", rank->prefix.c_str(), rank->partial_line.substr(0, newline).c_str());
    rank->partial_line.erase(0, newline + 1);
  }
  if (at_end && !rank->partial_line.empty()) {
    std::printf("%s: %s\n", rank->prefix.c_str(), rank->partial_line.c_str());
    rank->partial_line.clear();
  }
  std::fflush(stdout);
}

void read_output(RankProcess* rank) {
  char buffer[4096];
  ssize_t n = read(rank->output.get(), buffer, sizeof buffer);
  if (n > 0) rank->partial_line.append(buffer, static_cast<size_t>(n));
  bool at_end = n == 0 || (n < 0 && errno != EINTR);
  print_lines(rank, at_end);
  if (at_end) rank->output.reset();
}

void reap(std::vector<RankProcess>* ranks, int* worst) {
  for (RankProcess& rank : *ranks) {
    int wait_status = 0;
    if (!rank.running || waitpid(rank.pid, &wait_status, WNOHANG) != rank.pid) continue;
    rank.running = false;
    *worst = std::max(*worst, exit_status(wait_status));
  }
}

// Waits for all ranks. `signals` delivers SIGCHLD and what is to be handed on.
int attend(std::vector<RankProcess>* ranks, const Fd& signals) {
  int worst = 0;
  for (;;) {
    reap(ranks, &worst);
    bool busy = std::any_of(ranks->begin(), ranks->end(), [](const RankProcess& rank) {
      return rank.running || rank.output.valid();
    });
    if (!busy) return worst;
    std::vector<pollfd> fds{{signals.get(), POLLIN, 0}};
    for (const RankProcess& rank : *ranks) fds.push_back({rank.output.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return worst;
    for (size_t i = 0; i < ranks->size(); ++i) {
      if (fds[i + 1].revents != 0) read_output(&(*ranks)[i]);
    }
    signalfd_siginfo info;
    if (fds[0].revents == 0 || read(signals.get(), &info, sizeof info) != sizeof info) continue;
    if (info.ssi_signo == SIGCHLD) continue;
    for (const RankProcess& rank : *ranks) {
      if (rank.running) kill(-rank.pid, static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace

Result<pid_t> spawn_in_host(const Lab& lab, int host, const std::function<int()>& body) {
  pid_t parent = getpid();
  std::fflush(nullptr);  // or the child would print our buffers once more
  pid_t pid = fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid > 0) {
    setpgid(pid, pid);  // on both sides, so that it holds before either goes on
    return pid;
  }
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(128 + SIGTERM);
  Status status = lab.enter(host);
  if (!status.ok()) {
    std::fprintf(stderr, "r2ccl lab: %s\n", status.message().c_str());
    _exit(127);
  }
  int result = body();
  std::fflush(nullptr);
  _exit(result);
}

Status run_on_host(const Lab& lab, int host, const std::vector<std::string>& argv) {
  R2CCL_RETURN_IF_ERROR(lab.enter(host));
  setenv("HOST", ("h" + std::to_string(host)).c_str(), 1);
  return exec_program(argv);
}

Result<int> run_on_all(const Lab& lab, const LabJob& job) {
  sigset_t wanted, old;
  sigemptyset(&wanted);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&wanted, signal);
  sigprocmask(SIG_BLOCK, &wanted, &old);
  Fd signals(signalfd(-1, &wanted, SFD_CLOEXEC));
  std::vector<RankProcess> ranks;
  Status status;
  for (int host = 0; status.ok() && host < lab.spec().host_count(); ++host) {
    for (int local = 0; status.ok() && local < job.procs_per_host; ++local) {
      Result<RankProcess> rank = start_rank(lab, job, host, local);
      if (rank.ok()) {
        ranks.push_back(std::move(rank.value()));
      } else {
        status = rank.status();
      }
    }
  }
  if (!status.ok()) {
    for (const RankProcess& rank : ranks) kill(-rank.pid, SIGTERM);
  }
  int worst = attend(&ranks, signals);
  sigprocmask(SIG_SETMASK, &old, nullptr);
  if (!status.ok()) return status;
  return worst;
}

}  // namespace r2ccl::tools
