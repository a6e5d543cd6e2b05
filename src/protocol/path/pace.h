// Decides how many bytes a receiving NIC lets its senders have outstanding: the receive credit.
// Pure.
//
// Each sender may be a share of the NIC's window ahead of the bytes that have arrived from it. The
// window follows from the NIC's measured rate. The senders that are active now share it, and so do
// the ranks of this host. So seven senders to one NIC fill its queue no more than one would, and no
// sender collapses under drops, which would look like a fault.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"

namespace r2ccl {

class NicPace {
 public:
  explicit NicPace(uint32_t local_ranks) : local_ranks_(std::max<uint32_t>(local_ranks, 1)) {}

  size_t add_sender() {
    senders_.push_back(-kActive);
    return senders_.size() - 1;
  }
  size_t senders() const { return senders_.size(); }
  // Requires that add_sender() returned `sender`.
  void on_received(size_t sender, uint64_t bytes, TimeNs now) {
    R2CCL_CHECK(sender < senders_.size());
    senders_[sender] = now;
    period_bytes_ += bytes;
    if (now - period_at_ < kPeriod) return;
    const double rate = static_cast<double>(period_bytes_) / static_cast<double>(now - period_at_);
    rate_ = std::max(rate, rate_ * kDecay);
    period_at_ = now;
    period_bytes_ = 0;
  }
  // Returns how many bytes `sender` may be ahead of its bytes that have arrived. `round_trip`: of
  // its path. Requires that add_sender() returned `sender`.
  uint64_t share(size_t sender, TimeNs round_trip, TimeNs now) const {
    R2CCL_CHECK(sender < senders_.size() && round_trip >= 0);
    uint64_t active = 1;
    for (size_t i = 0; i < senders_.size(); ++i) {
      if (i != sender && now - senders_[i] < kActive) ++active;
    }
    // The window is twice the need, so that a rate that this window held down can double.
    const double need = 2.0 * rate_ * static_cast<double>(limits::kWindowDuration + round_trip);
    const auto window = std::clamp(static_cast<uint64_t>(need), limits::kPaceWindowMin,
                                   2 * limits::kWindowBytesMax);
    return std::max(window / (active * local_ranks_), limits::kPaceShareMin);
  }

  void check_invariants() const {
    R2CCL_CHECK(local_ranks_ >= 1);
    R2CCL_CHECK(rate_ >= 0);
  }

 private:
  static constexpr TimeNs kPeriod = 10 * kMillisecond;
  static constexpr TimeNs kActive = 20 * kMillisecond;
  static constexpr double kDecay = 0.99;

  uint64_t local_ranks_;         // >= 1
  std::vector<TimeNs> senders_;  // when each last delivered
  TimeNs period_at_ = 0;
  uint64_t period_bytes_ = 0;
  double rate_ = 0;  // >= 0; bytes per ns, a slowly decaying maximum
};

}  // namespace r2ccl
