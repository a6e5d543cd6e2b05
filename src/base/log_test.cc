#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

namespace r2ccl {
namespace {

// Runs in a process of its own, because the log's level and file belong to the process and stay.
int fork_while_another_thread_logs() {
  const std::string file = testing::TempDir() + "r2ccl_log." + std::to_string(getpid());
  if (!log_configure(LogLevel::info, file).ok()) return 1;
  std::atomic<bool> over{false};
  std::thread writer([&] {
    while (!over) R2CCL_LOG(info, "a line from a thread that the child does not have");
  });
  int stuck = 0;
  for (int i = 0; i < 300 && stuck == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // ends the child if the log's lock is held for ever
      R2CCL_LOG(info, "a line from a child");
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    stuck += WIFSIGNALED(status) ? 1 : 0;
  }
  over = true;
  writer.join();
  std::remove(file.c_str());
  return stuck;
}

TEST(Log, AForkedChildMayWriteWhileOtherThreadsOfTheParentDo) {
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) _exit(fork_while_another_thread_logs());
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "a child waits for the log for ever";
}

}  // namespace
}  // namespace r2ccl
