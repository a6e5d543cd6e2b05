// The processes of one job: they start together and are served until the last has ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/common/fd.h"

namespace r2ccl::tools {

// Starts `body` in a child process and returns its process id. The child leads its own process
// group, so that a signal to the group also reaches processes that the body starts. The kernel ends
// the child when this process ends. `body` returns the exit status.
Result<pid_t> spawn_child(const std::function<int()>& body);

class RankGroup {
 public:
  // Blocks SIGCHLD, SIGINT, SIGTERM and SIGHUP in this process until destruction: attend() reads
  // them.
  RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  ~RankGroup();

  // Adds a rank whose standard input is closed. A prefix that is not empty is put before each line
  // of its output.
  Status start(const std::string& prefix, const std::function<int()>& body);
  void signal_all(int signal_number);
  // Serves output and signals for at most timeout_ms (-1: until something happens), and forwards
  // SIGINT and SIGTERM to the ranks. Returns false once every rank has ended.
  bool attend_for(int timeout_ms);
  // Serves the ranks until every one has ended. Returns the worst exit status.
  int attend();
  int worst_status() const { return worst_status_; }
  bool interrupted() const { return interrupted_; }  // by a signal that was forwarded

 private:
  struct Member {
    pid_t pid = -1;
    bool running = false;
    Fd output;
    std::string prefix;
    std::string partial_line;
  };
  static void print_lines(Member* member, bool at_end);
  static void read_output(Member* member);
  void reap();
  void hand_on_signal();

  std::vector<Member> members_;
  Fd signals_;
  sigset_t old_mask_;
  int worst_status_ = 0;
  bool interrupted_ = false;
};

}  // namespace r2ccl::tools
