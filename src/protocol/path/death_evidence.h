// Decides from the answers of the peer's kernel whether the peer's process is dead.
//
// Each answer alone proves little, because an attacker can forge a RST to a SYN while the network
// is down. So death needs one of two:
// - The kernel closed each connection that was open to the end, and refuses new ones.
// - The kernel refuses every new connection for seconds. A host does so when it was cut off
//   while its process died, or when it has restarted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace r2ccl {

class DeathEvidence {
 public:
  explicit DeathEvidence(size_t paths) : paths_(paths) {}

  // Records that a path failed. `closed`: the peer's kernel closed its connection in order, or
  // reset it. Requires the index of a path, like on_refused().
  void on_failed(size_t path, bool closed, TimeNs at) {
    R2CCL_CHECK(path < paths_.size());
    paths_[path] = {at, closed, false};
  }
  // Records that no path is connected any more: refusals count from now on.
  void on_all_down(TimeNs at) {
    all_down_at_ = at;
    on_alive();
  }
  // Records that the peer, or a kernel in its place, accepted or acknowledged something.
  void on_alive() {
    refusals_ = 0;
    for (Path& path : paths_) path.refused = false;
  }
  void on_refused(size_t path, TimeNs at) {
    R2CCL_CHECK(path < paths_.size());
    if (refusals_++ == 0) first_refusal_at_ = at;
    last_refusal_at_ = at;
    paths_[path].refused = true;
  }

  size_t refusals() const { return refusals_; }
  bool proves_death() const {
    const bool for_long = last_refusal_at_ - first_refusal_at_ >= kRefusedFor;
    if (refusals_ >= kRefusalsAlone && for_long) return true;
    size_t closed = 0;
    for (const Path& path : paths_) {
      if (path.failed_at == 0 || path.failed_at < all_down_at_ - kTogether) continue;
      if (!path.closed) return false;
      ++closed;
    }
    const auto refused = static_cast<size_t>(
        std::count_if(paths_.begin(), paths_.end(), [](const Path& path) { return path.refused; }));
    return closed > 0 && refusals_ >= kRefusals && refused >= std::min(kRefusals, closed);
  }

  void check_invariants() const {
    R2CCL_CHECK(refusals_ == 0 || first_refusal_at_ <= last_refusal_at_);
    const auto refused =
        std::count_if(paths_.begin(), paths_.end(), [](const Path& path) { return path.refused; });
    R2CCL_CHECK(static_cast<size_t>(refused) <= refusals_);
  }

 private:
  // With closed connections, death needs this many refusals, from as many of the closed paths.
  static constexpr size_t kRefusals = 2;
  // Without closed connections, the refusals must last this long. A rank makes several attempts a
  // second.
  static constexpr size_t kRefusalsAlone = 4;
  static constexpr TimeNs kRefusedFor = 3 * kSecond;
  // Paths that failed within this time of the last one were open to the end.
  static constexpr TimeNs kTogether = 5 * kSecond;

  struct Path {
    TimeNs failed_at = 0;  // 0: never
    bool closed = false;
    bool refused = false;  // since it failed and since the last sign of life
  };

  std::vector<Path> paths_;
  TimeNs all_down_at_ = 0;
  size_t refusals_ = 0;          // >= the number of paths that were refused
  TimeNs first_refusal_at_ = 0;  // <= last_refusal_at_
  TimeNs last_refusal_at_ = 0;
};

}  // namespace r2ccl
