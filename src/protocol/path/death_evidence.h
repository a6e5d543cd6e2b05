// Decides from the answers of the peer's kernel whether the peer's process is dead.
//
// Each answer alone proves little: a firewall refuses too, so does another host that has taken the
// peer's address over, and an attacker can forge a RST to a SYN while the network is down. So the
// caller counts only refusals at an address that an authenticated connection has shown to be the
// peer's, and death needs one of two:
// - Each connection that was open to the end was closed by a kernel, and new ones are refused: at
//   once if one ended in order, which only the kernel of a process that is gone does, and after
//   some seconds if all were reset. A process that dies with unread bytes resets its connections,
//   but a firewall that begins to refuse does so too. One in order and another silent, because its
//   network had failed before, takes the same seconds.
// - Every new connection is refused for long. So it is when a host was cut off while its process
//   died, or when it has restarted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace r2ccl {

// How a kernel closed a connection; the larger one says more.
enum class KernelClose : uint8_t {
  none,   // it did not: silence, or a link that went down
  reset,  // by a reset, which any host may send that does not know the connection
  ended,  // in order: the kernel of the process that had it
};

class DeathEvidence {
 public:
  explicit DeathEvidence(size_t paths) : paths_(paths) {}

  // Records that a path failed. Requires the index of a path, like on_refused().
  void on_failed(size_t path, KernelClose closed, TimeNs at) {
    R2CCL_CHECK(path < paths_.size());
    paths_[path] = {at, closed, false};
  }
  // Records that a path failed for a reason that one end knows: its NIC, or the bytes that came.
  // The end of its connections says nothing of the process.
  void on_explained(size_t path) {
    R2CCL_CHECK(path < paths_.size());
    paths_[path] = {};
  }
  // Records how another connection of a failed path has ended.
  void on_closed(size_t path, KernelClose closed) {
    R2CCL_CHECK(path < paths_.size());
    paths_[path].closed = std::max(paths_[path].closed, closed);
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
  // Returns whether a kernel closed a connection of the peer's lately.
  bool closed_lately(TimeNs now) const {
    return std::ranges::any_of(paths_, [&](const Path& path) {
      return path.closed != KernelClose::none && now - path.failed_at < kTogether;
    });
  }
  bool proves_death() const {
    const TimeNs refused_for = last_refusal_at_ - first_refusal_at_;
    if (refusals_ >= kRefusalsAlone && refused_for >= kRefusedAlone) return true;
    size_t closed = 0;
    bool ended = false;
    bool silent = false;
    for (const Path& path : paths_) {
      if (path.failed_at == 0 || path.failed_at < all_down_at_ - kTogether) continue;
      silent = silent || path.closed == KernelClose::none;
      ended = ended || path.closed == KernelClose::ended;
      closed += path.closed == KernelClose::none ? 0 : 1;
    }
    if (silent && !ended) return false;
    if ((silent || !ended) && refused_for < kRefusedAfterReset) return false;
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
  // A firewall that is loaded anew, or an address that moves to another host, resets all
  // connections too, and refuses for shorter.
  static constexpr TimeNs kRefusedAfterReset = 2 * kSecond;
  // The same where a connection went silent before, so no kernel has said anything of it. After an
  // outage another NIC of a living peer's host may answer for its address, until its neighbours
  // have learned the right one. A rank makes several attempts a second.
  static constexpr TimeNs kRefusedAlone = 30 * kSecond;
  static constexpr size_t kRefusalsAlone = 4;
  // Paths that failed within this time of the last one were open to the end.
  static constexpr TimeNs kTogether = 5 * kSecond;

  struct Path {
    TimeNs failed_at = 0;  // 0: never
    KernelClose closed = KernelClose::none;
    bool refused = false;  // since it failed and since the last sign of life
  };

  std::vector<Path> paths_;
  TimeNs all_down_at_ = 0;
  size_t refusals_ = 0;          // >= the number of paths that were refused
  TimeNs first_refusal_at_ = 0;  // <= last_refusal_at_
  TimeNs last_refusal_at_ = 0;
};

}  // namespace r2ccl
