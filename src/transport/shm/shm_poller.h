// Poller over the poller of the transport below. It watches the sockets of the shared-memory
// connections there, and looks at their rings itself: before it sleeps, and after it.
//
// A ring that is busy costs no system call, so the poller below is asked only now and then while
// rings are ready: kKernelLook bounds how long a ready socket may wait.
#pragma once

#include <memory>
#include <vector>

#include "transport/shm/shm_connection.h"

namespace r2ccl {

class ShmPoller final : public Poller {
 public:
  // A ready socket is reported at the latest after so long.
  static constexpr TimeNs kKernelLook = 20 * kMicrosecond;

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
  static bool is_ready(const Watch& watch);
  bool any_ready() const;
  size_t report_ready(std::span<PollEvent> events);
  void set_waiting(bool on);
  size_t wait_in_kernel(std::span<PollEvent> events, TimeNs timeout_ns);
  size_t ask_kernel(std::span<PollEvent> events, TimeNs timeout_ns);

  Poller& below_;
  const Clock& clock_;
  std::shared_ptr<const ShmConnections> all_;
  std::vector<Watch> watches_;
  size_t next_ = 0;          // the watch that is reported first, so that each has its turn
  TimeNs kernel_asked_ = 0;  // when the poller below was last asked
};

}  // namespace r2ccl
