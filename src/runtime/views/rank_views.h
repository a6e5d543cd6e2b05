// The views of one rank. It agrees with the other ranks of the communicator on a view, which has
// the rates of the job's NICs, and keeps its collectives from beginning while their view is
// undecided.
//
// The lowest living rank of the communicator proposes a view when the rates of its hosts' NICs
// change. An unchanged view costs no message and no timer.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/health/rate_watch.h"
#include "protocol/view/view_agreement.h"
#include "runtime/collective/operations.h"
#include "runtime/engine/members.h"
#include "runtime/health/nic_health.h"
#include "runtime/peers/host_nics.h"

namespace r2ccl {

class RankViews {
 public:
  // The slow NICs of the first view stay slow for this time, even if no rank reports them. A job
  // that has just begun has not seen such a NIC's highest rate, so it may never find out by itself.
  static constexpr TimeNs kFirstRates = RateWatch::kMemory * RateWatch::kWindow;

  // All arguments must outlive this. `hosts`: as the plans take them. `first`: the rates that all
  // ranks start with, by the NICs of each host, in so far as it has such NICs.
  RankViews(Members& members, Operations& operations, const HostMap& hosts, View first,
            NicHealth& health, const Clock& clock);
  ~RankViews();
  RankViews(const RankViews&) = delete;
  RankViews& operator=(const RankViews&) = delete;

  // The rank has died, or has left in order.
  void on_gone(Rank rank, bool in_order);
  // Handles the body of a notice, which follows its kind byte.
  void on_message(Rank peer, std::span<const std::byte> body);
  // The state of the NICs counts no more: the ranks leave, or have failed.
  void stop() { stopped_ = true; }
  // Cheap while nothing has changed, because every turn of the rank calls it.
  void progress(TimeNs now) {
    if (now >= next_ || health_.version() != seen_version_) look(now);
  }
  TimeNs next_timeout() const { return next_; }

  // Returns what a communicator of these ranks takes for `first`, in its order, while this one's
  // view is `view`.
  View view_for(const View& view, std::span<const Rank> ranks) const;

  // --- for reports ---
  const ViewAgreement& agreement() const { return agreement_; }
  // Returns the number of hosts of a view.
  size_t hosts() const { return hosts_.hosts(); }
  // Returns the lowest rank of a host of a view.
  Rank leader(size_t host) const { return hosts_.leader(host); }
  // Returns the NICs of these hosts, with the rails of the communicator's views.
  const HostNics& nics() const { return nics_; }
  // Returns "h1 has 3.5 of 4 NICs".
  std::string describe(const View& view) const;
  // Returns how many messages were refused because no correct rank sends them.
  uint64_t refused() const { return refused_ + health_.refused(); }
  void check_invariants() const;

 private:
  Rank coordinator() const;
  std::vector<HostRates> rates(TimeNs now) const;
  NicRate rate(size_t host, size_t nic, TimeNs now) const;
  void doubt_lost() const;
  void look(TimeNs now);
  void wake() { next_ = 0; }
  void propose(TimeNs now);
  void run_agreement(TimeNs now);
  void send(const ViewSend& send);
  void refuse(Rank peer, const Status& why);
  void tell_view(const ViewRecord& record) const;

  Members& members_;
  Operations& operations_;
  NicHealth& health_;
  const Clock& clock_;
  const HostMap& hosts_;
  const View first_;
  // Views have the rates by these rails, and zero for a rail that the host lacks.
  const HostNics nics_;
  const std::vector<HostRates> first_rates_;  // by host and rail
  const TimeNs first_until_;                  // 0: no NIC of the first view is slow
  bool first_over_ = false;
  std::vector<bool> gone_;  // by rank
  ViewAgreement agreement_;
  uint64_t told_version_ = 0;  // of the last record that was logged
  uint64_t seen_version_ = 0;  // `health_` had it at the last look()
  bool due_ = false;           // the rates may differ from those proposed last
  bool stopped_ = false;
  TimeNs next_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace r2ccl
