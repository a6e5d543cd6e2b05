// The interfaces of this host. A thread of its own reads them: the kernel answers under a lock
// (rtnl) that each process which makes, changes or removes an interface holds, on a busy host for
// seconds. All links of a process would stand still if its driving thread waited for it. Notices
// need no lock, so the driving thread takes them itself: it knows at once that a cable was pulled.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "base/status.h"
#include "transport/tcp/netlink.h"
#include "transport/transport.h"

namespace r2ccl {

class NicWatch {
 public:
  // Returns all interfaces; may take long. read_nics(), but for tests.
  using Read = std::function<Result<std::vector<Nic>>()>;

  static Result<std::unique_ptr<NicWatch>> open(Read read = read_nics);
  // Waits for a read that is under way.
  ~NicWatch();
  NicWatch(const NicWatch&) = delete;
  NicWatch& operator=(const NicWatch&) = delete;

  // Returns the interfaces as they were last read. The first call reads them itself, and only it
  // can fail. If nothing is new since the last call, the thread reads them once more.
  Result<std::vector<Nic>> nics();
  // Is readable when something may be new.
  int fd() const { return both_.get(); }
  // Ends that. Returns whether something is new.
  bool drain();

 private:
  NicWatch(Read read, NicEvents events, GuardedFd read_ended, GuardedFd both);

  void run();
  bool read_again();
  void publish(std::vector<Nic> read);
  void ask();

  const Read read_;
  NicEvents events_;
  bool told_ = false;           // the thread's: a line says that reads fail
  const GuardedFd read_ended_;  // eventfd, of reads with a difference
  const GuardedFd both_;        // epoll, of these two

  std::mutex mutex_;  // guards the members below
  std::condition_variable asked_or_stopped_;
  std::optional<std::vector<Nic>> latest_;  // none: no read has succeeded yet
  bool given_ = false;                      // nics() has returned it
  bool asked_ = false;                      // the thread must read
  bool stop_ = false;

  std::thread thread_;  // last: uses all others; starts at the first ask()
};

}  // namespace r2ccl
