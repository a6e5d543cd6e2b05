#include "tools/common/rank_group.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tools/common/process.h"

namespace r2ccl::tools {

Result<pid_t> spawn_child(const std::function<int()>& body) {
  pid_t parent = getpid();
  std::fflush(nullptr);  // or the child would print the parent's buffers once more
  pid_t pid = fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid > 0) {
    setpgid(pid, pid);  // on both sides, so that it holds before either continues
    return pid;
  }
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(128 + SIGTERM);
  int result = body();
  std::fflush(nullptr);
  _exit(result);
}

RankGroup::RankGroup() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (int signal_number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&wanted, signal_number);
  sigprocmask(SIG_BLOCK, &wanted, &old_mask_);
  signals_ = Fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

RankGroup::~RankGroup() {
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

Status RankGroup::start(const std::string& prefix, const std::function<int()>& body) {
  Member member;
  int ends[2] = {-1, -1};
  if (!prefix.empty() && pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  member.output = Fd(ends[0]);
  member.prefix = prefix;
  Fd child_end(ends[1]);
  Result<pid_t> pid = spawn_child([&] {
    // Ranks run in the background of the terminal, where a read would stop them.
    if (int null = open("/dev/null", O_RDONLY | O_CLOEXEC); null >= 0) dup2(null, 0);
    if (child_end.valid()) {
      dup2(child_end.get(), 1);
      dup2(child_end.get(), 2);
    }
    return body();
  });
  if (!pid.ok()) return pid.status();
  member.pid = pid.value();
  member.running = true;
  members_.push_back(std::move(member));
  return Status::ok_status();
}

void RankGroup::signal_all(int signal_number) {
  for (const Member& member : members_) {
    if (member.running) kill(-member.pid, signal_number);
  }
}

void RankGroup::print_lines(Member* member, bool at_end) {
  size_t newline = 0;
  while ((newline = member->partial_line.find('\n')) != std::string::npos) {
    std::printf("%s: %s\n", member->prefix.c_str(),
                member->partial_line.substr(0, newline).c_str());
    member->partial_line.erase(0, newline + 1);
  }
  if (at_end && !member->partial_line.empty()) {
    std::printf("%s: %s\n", member->prefix.c_str(), member->partial_line.c_str());
    member->partial_line.clear();
  }
  std::fflush(stdout);
}

void RankGroup::read_output(Member* member) {
  char buffer[4096];
  ssize_t n = read(member->output.get(), buffer, sizeof buffer);
  if (n > 0) member->partial_line.append(buffer, static_cast<size_t>(n));
  bool at_end = n == 0 || (n < 0 && errno != EINTR);
  print_lines(member, at_end);
  if (at_end) member->output.reset();
}

void RankGroup::reap() {
  for (Member& member : members_) {
    int wait_status = 0;
    if (!member.running || waitpid(member.pid, &wait_status, WNOHANG) != member.pid) continue;
    member.running = false;
    worst_status_ = std::max(worst_status_, exit_status(wait_status));
  }
}

void RankGroup::hand_on_signal() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    interrupted_ = true;
    signal_all(static_cast<int>(info.ssi_signo));
  }
}

bool RankGroup::attend_for(int timeout_ms) {
  reap();
  bool busy = std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.running || member.output.valid();
  });
  if (!busy) return false;
  std::vector<pollfd> fds{{signals_.get(), POLLIN, 0}};
  for (const Member& member : members_) fds.push_back({member.output.get(), POLLIN, 0});
  if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return true;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (fds[i + 1].revents != 0) read_output(&members_[i]);
  }
  if (fds[0].revents != 0) hand_on_signal();
  return true;
}

int RankGroup::attend() {
  while (attend_for(-1)) {
  }
  return worst_status_;
}

}  // namespace r2ccl::tools
