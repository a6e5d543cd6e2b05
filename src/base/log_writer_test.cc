#include "base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "base/log.h"

namespace r2ccl {
namespace {

constexpr int kLines = 20'000;  // far more than the pipe and the queue hold

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends.data()), 0); }
  ~Pipe() {
    for (const int end : ends) close(end);
  }
  std::array<int, 2> ends{};
};

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (true) {
    const ssize_t count = read(file, bytes.data(), bytes.size());
    if (count <= 0) return text;
    text.append(bytes.data(), static_cast<size_t>(count));
  }
}

// Runs the body in a process of its own, because the log and standard error belong to the process.
// Returns its exit status; -1: a signal ended it, SIGALRM after 20 s.
int in_a_process(const std::function<int()>& body) {
  const pid_t process = fork();
  if (process == 0) {
    signal(SIGPIPE, SIG_DFL);
    alarm(20);
    _exit(body());
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void fill(int file) {
  fcntl(file, F_SETFL, O_NONBLOCK);
  const std::string some(512, 'x');
  while (write(file, some.data(), some.size()) > 0) {
  }
  fcntl(file, F_SETFL, 0);
}

// Returns the sum of the lines that the notes in the text call dropped.
uint64_t told_in(const std::string& text) {
  uint64_t sum = 0;
  const std::string before = " R2CCL WARN ";
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    sum += std::stoull(text.substr(at + before.size()));
  }
  return sum;
}

// The tests' writer has a detached thread, so it lives as long as the process.
LogWriter& writer_to(int file) {
  auto* const writer = new LogWriter;
  writer->write_to(file);
  return *writer;
}

TEST(LogWriter, LinesArriveWholeAndInOrder) {
  EXPECT_EQ(in_a_process([] {
              const Pipe pipe;
              LogWriter& writer = writer_to(pipe.ends[1]);
              std::string expected;
              for (int i = 0; i < 100; ++i) {
                const std::string line = "line " + std::to_string(i) + "\n";
                writer.add(line);
                expected += line;
              }
              writer.flush(10 * kSecond);
              fcntl(pipe.ends[0], F_SETFL, O_NONBLOCK);
              return read_all(pipe.ends[0]) == expected && writer.dropped() == 0 ? 0 : 1;
            }),
            0);
}

TEST(LogWriter, AFullPipeHoldsNobodyUpAndTheLostLinesAreCounted) {
  EXPECT_EQ(in_a_process([] {
              const Pipe pipe;
              fill(pipe.ends[1]);
              LogWriter& writer = writer_to(pipe.ends[1]);
              for (int i = 0; i < kLines; ++i) writer.add("a line of thirty-two characters\n");
              const uint64_t dropped = writer.dropped();
              if (dropped == 0 || dropped >= kLines) return 1;
              if (fcntl(pipe.ends[1], F_GETFL) & O_NONBLOCK) return 2;  // not ours to change
              fcntl(pipe.ends[0], F_SETFL, O_NONBLOCK);
              std::string text;
              while (told_in(text) < writer.dropped()) {  // or the alarm
                text += read_all(pipe.ends[0]);
                writer.add("a later line\n");
                writer.flush(kMillisecond);
              }
              return told_in(text) == writer.dropped() ? 0 : 3;
            }),
            0);
}

TEST(LogWriter, AReaderThatIsGoneEndsNothing) {
  EXPECT_EQ(in_a_process([] {
              Pipe pipe;
              close(pipe.ends[0]);
              LogWriter& writer = writer_to(pipe.ends[1]);
              writer.add("nobody reads this\n");
              writer.flush(10 * kSecond);
              return writer.dropped() == 1 ? 0 : 1;
            }),
            0);
}

TEST(LogWriter, AFullDiskIsCounted) {
  EXPECT_EQ(in_a_process([] {
              LogWriter& writer = writer_to(open("/dev/full", O_WRONLY | O_CLOEXEC));
              writer.add("no room\n");
              writer.add("no room\n");
              writer.flush(10 * kSecond);
              return writer.dropped() == 2 ? 0 : 1;
            }),
            0);
}

TEST(Log, WithoutStandardErrorNoLineGoesIntoASocketWithItsNumber) {
  EXPECT_EQ(in_a_process([] {
              for (const int number : {0, 1, 2}) close(number);
              if (!log_configure(LogLevel::info, "").ok()) return 1;
              std::array<int, 2> first{};
              std::array<int, 2> second{};
              socketpair(AF_UNIX, SOCK_STREAM, 0, first.data());
              socketpair(AF_UNIX, SOCK_STREAM, 0, second.data());
              if (second[0] != 2) return 2;
              R2CCL_LOG(info, "a line");
              log_flush();
              char byte = 0;
              if (recv(second[1], &byte, 1, MSG_DONTWAIT) != -1) return 3;
              return log_lines_dropped() == 1 ? 0 : 4;
            }),
            0);
}

TEST(Log, AFifoWithoutAReaderHoldsUpNeitherTheStartNorALine) {
  const std::string name = testing::TempDir() + "r2ccl_fifo." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
  EXPECT_EQ(in_a_process([&] {
              if (!log_configure(LogLevel::info, name).ok()) return 1;
              R2CCL_LOG(info, "before the reader");
              log_flush();
              const int reader = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
              const std::string text = read_all(reader);
              return text.find("before the reader\n") != std::string::npos ? 0 : 2;
            }),
            0);
  std::remove(name.c_str());
}

TEST(Log, AFileIsReadByItsOwnerAloneAndNoStrangersLinkIsFollowed) {
  const std::string name = testing::TempDir() + "r2ccl_new_log." + std::to_string(getpid());
  const std::string link = name + ".link";
  EXPECT_EQ(in_a_process([&] {
              umask(0);
              if (!log_configure(LogLevel::info, name).ok()) return 1;
              struct stat file {};
              stat(name.c_str(), &file);
              return (file.st_mode & 0777) == 0600 ? 0 : 2;
            }),
            0);
  ASSERT_EQ(symlink(name.c_str(), link.c_str()), 0);
  EXPECT_EQ(in_a_process([&] { return log_configure(LogLevel::info, link).ok() ? 0 : 1; }), 0)
      << "its own link";
  if (lchown(link.c_str(), 65534, 65534) == 0) {  // root alone may do so
    EXPECT_EQ(in_a_process([&] {
                const Status refused = log_configure(LogLevel::info, link);
                if (refused.ok()) return 2;
                return refused.message().find("another user") != std::string::npos ? 0 : 1;
              }),
              0);
  }
  std::remove(link.c_str());
  std::remove(name.c_str());
}

TEST(GuardedFd, NeverHasTheNumberOfAStandardStream) {
  EXPECT_EQ(in_a_process([] {
              for (const int number : {0, 1, 2}) close(number);
              std::vector<GuardedFd> all;
              for (int i = 0; i < 8; ++i) {
                all.push_back(
                    GuardedFd::from([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }));
                if (all.back().get() <= 2) return 1;
              }
              return fcntl(0, F_GETFD) == -1 && fcntl(2, F_GETFD) == -1 ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace r2ccl
