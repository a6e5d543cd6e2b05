// The views of one rank: watches this host's NICs, agrees with the other ranks of the communicator
// on a view, and keeps its collectives from beginning while their view is undecided.
//
// The lowest living rank of each host reports the reach of its NICs to the lowest living rank of
// all, when it changes. That one proposes. An unchanged view costs no message and no timer.
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
#include "protocol/view/reach_filter.h"
#include "protocol/view/view_agreement.h"
#include "protocol/view/view_driver.h"
#include "runtime/collective/operations.h"
#include "runtime/engine/members.h"

namespace r2ccl {

class RankViews {
 public:
  // All arguments must outlive this. `job`: as the
  // plans take it. `first`: the rates that all ranks start with, by the NICs of each host's lowest
  // rank, in so far as it has such NICs.
  RankViews(Members& members, Operations& operations, const HostMap& hosts, View first,
            const Clock& clock);
  ~RankViews();
  RankViews(const RankViews&) = delete;
  RankViews& operator=(const RankViews&) = delete;

  // A path, or the set of drained NICs, has changed.
  void on_change() {
    changed_ = true;
    wake();
  }
  // The rank has died, or has left in order.
  void on_gone(Rank rank, bool in_order);
  // Handle the body of a notice, which follows its kind byte.
  void on_message(Rank peer, std::span<const std::byte> body);
  void on_report(Rank peer, std::span<const std::byte> body);
  // The state of this host's NICs counts no more: the ranks leave, or have failed.
  void stop() { stopped_ = true; }
  // Cheap while nothing has changed, because every turn of the rank calls it.
  void progress(TimeNs now) {
    if (now >= look_at_ || members_.nics().drained() != drained_) look(now);
  }
  TimeNs next_timeout() const { return next_; }

  // Returns what a communicator of these ranks takes for `first`, in its order, while this one's
  // view is `view`.
  View view_for(const View& view, std::span<const Rank> ranks) const;

  // --- for reports ---
  const ViewAgreement& agreement() const { return agreement_; }
  // Returns the number of hosts of a view.
  size_t hosts() const { return hosts_.hosts(); }
  // Returns the rail of each NIC of a host's lowest rank.
  const std::vector<uint16_t>& rails(size_t host) const { return rails_[host]; }
  // Returns the lowest rank of a host of a view.
  Rank leader(size_t host) const { return hosts_.leader(host); }
  // Returns "h1 has 3.5 of 4 NICs".
  std::string describe(const View& view) const;
  // Returns how many messages were refused because no correct rank sends them.
  uint64_t refused() const { return refused_; }
  void check_invariants() const;

 private:
  Rank coordinator() const;
  uint32_t own_host() const;
  bool speaks_for_host() const;
  HostReach momentary() const;
  size_t nics() const { return own_rails().size(); }
  const std::vector<uint16_t>& own_rails() const;
  std::vector<SlowNic> slow_by_rail() const;
  bool is_on_rail(const PathSpec& path, NicId nic, uint32_t peer_host) const;
  NicReach reach_of_nic(NicId nic) const;
  void look(TimeNs now);
  void wake() { next_ = look_at_ = 0; }
  void watch_nics(TimeNs now);
  void watch_rates(TimeNs now);
  void begin_window(TimeNs now);
  std::vector<NicWindow> take_window(TimeNs now) const;
  ViewDriver& driver();
  void report(TimeNs now);
  void propose(TimeNs now);
  void run_agreement(TimeNs now);
  void send(const ViewSend& send);
  void refuse(Rank peer, const Status& why);
  void tell_view(const ViewRecord& record) const;

  Members& members_;
  Operations& operations_;
  const Clock& clock_;
  const HostMap& hosts_;
  const View first_;
  const TimeNs made_at_;
  // By host: the rail of each NIC of its lowest rank. A view has the rates by rail, and zero for a
  // rail that the host lacks.
  const std::vector<std::vector<uint16_t>> rails_;
  std::vector<bool> gone_;  // by rank
  ViewAgreement agreement_;
  uint64_t told_version_ = 0;         // of the last record that was logged
  ReachFilter filter_;                // of this host
  std::optional<ViewDriver> driver_;  // from the first report on, or the slow NIC of `first_`
  RateWatch rate_watch_{0};
  HostReport told_;  // the last report
  Rank told_to_;     // its receiver
  // The window of time in which rates are measured.
  struct NicTotals {
    uint64_t delivered = 0;
    TimeNs idle = 0;
  };
  TimeNs window_at_ = 0;
  std::vector<NicTotals> totals_;  // by NIC, when the window began
  std::vector<uint64_t> sent_;     // by path, in the order of links and paths
  bool changed_ = true;            // progress() must look at the NICs
  NicSet drained_;                 // as of the last progress()
  bool stopped_ = false;
  TimeNs next_ = 0;
  TimeNs look_at_ = 0;  // <= next_: it also looks when a window ends, without a timer
  uint64_t refused_ = 0;
};

}  // namespace r2ccl
