// Measures the work of each NIC of this rank in windows of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "protocol/health/rate_watch.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/peers/host_nics.h"

namespace r2ccl {

class NicWindows {
 public:
  // The engine has started. Both must outlive this.
  NicWindows(const ProgressEngine& engine, const HostNics& nics, TimeNs now);

  // Ends the window unmeasured, and begins the next one.
  void skip(TimeNs now) { begin(now); }
  TimeNs begun_at() const { return begun_at_; }
  // Ends the window, and begins the next one. Returns the work of each NIC in it. The host of a
  // window is one of the job, its NIC a rail. A NIC whose bytes are mostly those of other jobs
  // counts as idle: nobody here knows their receivers.
  std::vector<NicWindow> take(TimeNs now);

 private:
  void begin(TimeNs now);

  struct NicTotals {
    uint64_t delivered = 0;
    TimeNs idle = 0;
  };
  const ProgressEngine& engine_;
  const HostNics& nics_;
  TimeNs begun_at_ = 0;
  std::vector<NicTotals> totals_;  // by NIC, when the window began
  std::vector<uint64_t> sent_;     // by path, in the order of links and paths
};

}  // namespace r2ccl
