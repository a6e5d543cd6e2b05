// Poller over epoll; a poll id is a descriptor. A caller may also add a descriptor of another
// object (a Unix socket, a pipe).
#pragma once

#include "base/fork_guard.h"
#include "transport/transport.h"

namespace r2ccl {

class TcpPoller final : public Poller {
 public:
  static Result<std::unique_ptr<TcpPoller>> open();

  // `token` may be anything but UINT64_MAX, which marks the poller's own wake-up.
  Status add(int poll_id, uint64_t token, bool want_write) override;
  void modify(int poll_id, uint64_t token, bool want_write) override;
  void remove(int poll_id) override;
  // Also returns 0 early when a signal handler ran on this thread.
  size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) override;
  void wake() override;

 private:
  TcpPoller(GuardedFd epoll, GuardedFd wake_event);

  GuardedFd epoll_;
  GuardedFd wake_event_;
  bool has_pwait2_ = true;  // until the kernel (before 5.11) or a seccomp filter says otherwise
};

}  // namespace r2ccl
