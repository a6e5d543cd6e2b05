// All connections that a rank relays. Driving thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/relay/relay_pipe.h"

namespace r2ccl {

class RelayPipes {
 public:
  explicit RelayPipes(const RelayHost& host) : host_(host) {}

  // Returns whether the rank relays as many connections as it may.
  bool full() const;
  bool empty() const { return pipes_.empty(); }
  size_t size() const { return pipes_.size(); }
  // Returns whether this rank is an end of one.
  bool serves(Rank rank) const;
  // As the constructor of RelayPipe. Requires !full().
  void open(RelayPipe::End near, RelayPipe::End far, std::vector<std::byte> early, TimeNs now);
  void end_all() noexcept { pipes_.clear(); }

  void progress(TimeNs now) {
    if (!empty()) progress_all(now);
  }
  TimeNs next_timeout() const { return empty() ? kNever : earliest_timeout(); }

  uint64_t outstanding(const NicQueue& queue) const;
  size_t busy(const NicQueue& queue) const;
  void check_invariants() const;

 private:
  void progress_all(TimeNs now);
  TimeNs earliest_timeout() const;

  const RelayHost host_;
  std::vector<std::unique_ptr<RelayPipe>> pipes_;
};

}  // namespace r2ccl
