// Drives one table of the plugin as NCCL does, without NCCL:
//
//   nccl_conformance PLUGIN LIBR2CCL VERSION [CASE...]
//
// Prints a line for each case, and ends with 1 if one has failed. CONFORMANCE_LOG=1 prints the
// lines of the plugin.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/case.h"

namespace conformance {
namespace {

using Clock = std::chrono::steady_clock;
// A case takes some tenths of a second, a few of them two seconds.
constexpr auto kLimit = std::chrono::seconds(100);

int run_side(const Case& each, Side side, const Settings& settings) {
  try {
    each.run(side, settings);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s process: %s\n", side.first() ? "first" : "second", error.what());
    return 1;
  }
}

pid_t start_side(const Case& each, int number, const std::array<int, 2>& channel,
                 const Settings& settings) {
  const pid_t process = fork();
  if (process != 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::close(channel[static_cast<size_t>(1 - number)]);
  for (const auto& [name, value] : each.environment) setenv(name, value, 1);
  std::exit(run_side(each, Side(number, channel[static_cast<size_t>(number)]), settings));
}

std::string words(int status) {
  if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
  return "ended with " + std::to_string(WEXITSTATUS(status));
}

// Returns the reason why it has failed, or nothing.
std::string run_case(const Case& each, const Settings& settings) {
  std::array<int, 2> channel{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) != 0) return "socketpair";
  std::fflush(nullptr);
  std::array<pid_t, 2> processes{};
  for (int number : {0, 1}) {
    processes[static_cast<size_t>(number)] = start_side(each, number, channel, settings);
  }
  for (const int end : channel) ::close(end);
  std::string why;
  const auto deadline = Clock::now() + kLimit;
  for (size_t number : {size_t{0}, size_t{1}}) {
    int status = 0;
    const char* name = number == 0 ? "; the first process " : "; the second process ";
    while (waitpid(processes[number], &status, WNOHANG) == 0) {
      if (Clock::now() > deadline) {
        kill(processes[number], SIGKILL);
        why += std::string(name) + "hangs";
      }
      usleep(1000);
    }
    if (status != 0) why += name + words(status);
  }
  return why;
}

bool is_asked_for(const Case& each, int count, char** names) {
  for (int i = 0; i < count; ++i) {
    if (std::string(each.name) == names[i]) return true;
  }
  return count == 0;
}

int run(const Settings& settings, int count, char** names) {
  setenv("R2CCL_SOCKET_IFNAME", "=lo", 1);
  unsetenv("R2CCL_COMM_ID");
  int failed = 0;
  int ran = 0;
  for (const auto& cases : {beginning_cases(), connecting_cases(), message_cases(), group_cases(),
                            closing_cases(), process_cases()}) {
    for (const Case& each : cases) {
      if (!is_asked_for(each, count, names)) continue;
      const bool is_newest = settings.version == kVersionMax;
      const bool is_between = settings.version != kVersionMin && !is_newest;
      if (each.runs == Runs::on_core && is_between && count == 0) continue;
      for (const char* shared : {"1", "0"}) {
        if (*shared == '0' && !(each.runs != Runs::on_each_table && is_newest)) continue;
        setenv("R2CCL_SHM", shared, 1);
        const auto began = Clock::now();
        const std::string why = run_case(each, settings);
        const std::chrono::duration<double> took = Clock::now() - began;
        std::printf("%s v%d %s%s (%.2f s)%s\n", why.empty() ? "ok  " : "FAIL", settings.version,
                    each.name, *shared == '0' ? " over TCP" : "", took.count(), why.c_str());
        ++ran;
        if (!why.empty()) ++failed;
      }
    }
  }
  std::printf("%d passed, %d failed\n", ran - failed, failed);
  return failed == 0 && ran > 0 ? 0 : 1;
}

}  // namespace
}  // namespace conformance

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "usage: %s PLUGIN LIBR2CCL VERSION [CASE...]\n", arguments[0]);
    return 2;
  }
  const conformance::Settings settings{arguments[1], arguments[2], std::atoi(arguments[3])};
  return conformance::run(settings, count - 4, arguments + 4);
}
