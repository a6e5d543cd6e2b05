// Poller over the poller of the transport below. It watches the sockets of the shared-memory
// connections there, and looks at their rings itself: before it sleeps, and after it.
//
// A look at the rings costs no system call, so the poller below is asked only now and then while
// rings are ready, or while the caller polls without a timeout: kKernelLook bounds how long a ready
// socket may wait. While other sockets have events, each poll asks for them.
#pragma once

#include <memory>
#include <vector>

#include "transport/shm/shm_connection.h"

namespace r2ccl {

class ShmPoller final : public Poller {
 public:
  // A ready socket is reported at the latest after so long.
  static constexpr TimeNs kKernelLook = 20 * kMicrosecond;
  // Other sockets count as busy for so long after an event.
  static constexpr TimeNs kKernelBusy = 1 * kMillisecond;

  ShmPoller(Poller& below, const Clock& clock, std::shared_ptr<const ShmConnections> all);

  // `token` must differ in its upper half from that of UINT64_MAX.
  Status add(int poll_id, uint64_t token, bool want_write) override;
  void modify(int poll_id, uint64_t token, bool want_write) override;
  void remove(int poll_id) override;
  // May also return 0 early.
  size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) override;
  void wake() override { below_.wake(); }

 private:
  struct Watch {
    ShmConnection* connection;
    uint64_t token;
    bool want_write;
  };

  Watch* find(int poll_id);
  size_t report_ready(std::span<PollEvent> events);
  void set_waiting(bool on);
  size_t wait_in_kernel(std::span<PollEvent> events, TimeNs timeout_ns);
  size_t ask_kernel(std::span<PollEvent> events, TimeNs timeout_ns);
  bool kernel_due() const;

  Poller& below_;
  const Clock& clock_;
  std::shared_ptr<const ShmConnections> all_;
  std::vector<Watch> watches_;
  size_t next_ = 0;          // the watch that is reported first, so that each has its turn
  TimeNs kernel_asked_ = 0;  // when the poller below was last asked
  TimeNs kernel_busy_until_ = 0;
};

}  // namespace r2ccl
