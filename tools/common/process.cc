#include "tools/common/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tools/common/fd.h"

namespace r2ccl::tools {
namespace {

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

const char* package_of(const std::string& program) {
  if (program == "ip" || program == "tc") return "iproute2";
  if (program == "nft") return "nftables";
  return nullptr;
}

Status start_error(const Command& command, int error) {
  const std::string& program = command.argv[0];
  const char* package = package_of(program);
  if (error == ENOENT && package != nullptr) {
    return {Code::system,
            "the program '" + program + "' is missing: install the package " + package};
  }
  return system_error("cannot run " + program, error);
}

// Runs in the child up to exec, with system calls only, because the parent may have threads. On
// failure the errno goes to the parent over a pipe that a successful exec closes.
[[noreturn]] void exec_child(char* const* argv, const char* netns, int in, int out, int err,
                             int failure) {
  int netns_fd = -1;
  if (netns[0] != '\0') netns_fd = open(netns, O_RDONLY | O_CLOEXEC);
  bool ok = netns[0] == '\0' || (netns_fd >= 0 && setns(netns_fd, CLONE_NEWNET) == 0);
  ok = ok && dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0;
  if (ok) execvp(argv[0], argv);
  int error = errno;
  [[maybe_unused]] ssize_t ignored = write(failure, &error, sizeof error);
  _exit(127);
}

void drain(Fd* fd, std::string* text) {
  char buffer[4096];
  ssize_t n = read(fd->get(), buffer, sizeof buffer);
  if (n > 0) text->append(buffer, static_cast<size_t>(n));
  if (n == 0 || (n < 0 && errno != EINTR)) fd->reset();
}

// Feeds `input` and collects both outputs until the program has closed them. It polls: a program
// that fills one pipe while this process blocks on another would hang both.
void converse(const std::string& input, Fd in, Fd out, Fd err, Outcome* outcome) {
  size_t written = 0;
  if (input.empty()) in.reset();
  // A large blocking write would wait for a program that waits for this process to read.
  if (in.valid()) fcntl(in.get(), F_SETFL, O_NONBLOCK);
  while (in.valid() || out.valid() || err.valid()) {
    std::array<pollfd, 3> fds{
        {{in.get(), POLLOUT, 0}, {out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) {
      ssize_t n = write(in.get(), input.data() + written, input.size() - written);
      if (n > 0) written += static_cast<size_t>(n);
      if ((n < 0 && errno != EINTR && errno != EAGAIN) || written == input.size()) in.reset();
    }
    if (fds[1].revents != 0) drain(&out, &outcome->out);
    if (fds[2].revents != 0) drain(&err, &outcome->err);
  }
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

int exit_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

Result<Outcome> run_program(const Command& command) {
  R2CCL_CHECK(!command.argv.empty());
  Result<Pipe> in = make_pipe(), out = make_pipe(), err = make_pipe(), failure = make_pipe();
  for (const auto* pipe : {&in, &out, &err, &failure}) {
    if (!pipe->ok()) return pipe->status();
  }
  std::vector<char*> argv;
  for (const std::string& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  pid_t pid = fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid == 0) {
    exec_child(argv.data(), command.netns_path.c_str(), in.value().read_end.get(),
               out.value().write_end.get(), err.value().write_end.get(),
               failure.value().write_end.get());
  }
  in.value().read_end.reset();
  out.value().write_end.reset();
  err.value().write_end.reset();
  failure.value().write_end.reset();

  // A program that ends without reading its input must not end this process.
  sighandler_t old_handler = signal(SIGPIPE, SIG_IGN);
  Outcome outcome;
  converse(command.input, std::move(in.value().write_end), std::move(out.value().read_end),
           std::move(err.value().read_end), &outcome);
  signal(SIGPIPE, old_handler);

  int start_errno = 0;
  ssize_t n = read(failure.value().read_end.get(), &start_errno, sizeof start_errno);
  int wait_status = 0;
  while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (n == static_cast<ssize_t>(sizeof start_errno)) return start_error(command, start_errno);
  outcome.status = exit_status(wait_status);
  return outcome;
}

Result<std::string> run_checked(const Command& command) {
  Result<Outcome> outcome = run_program(command);
  if (!outcome.ok()) return outcome.status();
  if (outcome.value().status == 0) return outcome.value().out;
  std::string line;
  for (const std::string& word : command.argv) line += (line.empty() ? "" : " ") + word;
  std::string said = trimmed(outcome.value().err);
  if (said.empty()) said = "exit status " + std::to_string(outcome.value().status);
  return Status(Code::system, line + ": " + said);
}

}  // namespace r2ccl::tools
