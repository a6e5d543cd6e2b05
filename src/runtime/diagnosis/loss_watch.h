// Reads the kernels' packet counters of all paths from time to time, and reports losses to the
// localising rank. A rank without losses reports nothing.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "protocol/diagnosis/loss_localiser.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

class LossWatch {
 public:
  using NameOf = std::function<NicName(Rank rank, NicId nic)>;
  // The engine has its links.
  LossWatch(ProgressEngine& engine, const Clock& clock, NameOf name_of);

  // Returns a report that is due now.
  std::optional<LossReport> progress(TimeNs now);
  // A path is about to break, or has broken: report its losses before that.
  void hurry() { next_ = 0; }
  // While no packet is lost the watch needs no wake-up of its own.
  TimeNs next_timeout() const { return losing_ ? next_ : kNever; }

 private:
  struct Watched {
    Rank peer;
    Path* path;
  };
  LossReport report(TimeNs now) const;

  ProgressEngine& engine_;
  const Clock& clock_;
  const NameOf name_of_;
  std::vector<Watched> watched_;  // between NICs; none to ranks of this host
  TimeNs next_ = 0;
  TimeNs reported_at_ = 0;
  bool losing_ = false;
};

}  // namespace r2ccl
