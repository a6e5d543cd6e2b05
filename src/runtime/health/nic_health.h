// Knows how much the NICs of the job's hosts can carry. The plans of all its communicators follow
// it.
//
// The lowest living rank that uses a NIC reports its reach, and whether it is slow, to the rank
// that decides for the job, when that changes. The rank that decides tells all ranks the rates.
// NICs that stay as they are cost no message and no timer.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/health/health_map.h"
#include "protocol/health/rate_watch.h"
#include "protocol/health/reach_filter.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/health/nic_windows.h"
#include "runtime/link/notice.h"
#include "runtime/peers/host_nics.h"

namespace r2ccl {

class NicHealth {
 public:
  // The engine has started. `nics`: of its job. `ended`: by rank, true: it has left or died. All
  // must outlive this.
  NicHealth(ProgressEngine& engine, const HostNics& nics, const Clock& clock,
            const std::vector<bool>& ended);
  NicHealth(const NicHealth&) = delete;
  NicHealth& operator=(const NicHealth&) = delete;

  // A path or the set of drained NICs has changed, or a peer has ended.
  void on_change() {
    changed_ = true;
    wake();
  }
  // There is a new verdict. A NIC that it names carries nothing until it reaches all hosts again.
  void on_verdict(const Verdict& verdict);
  // Handle the body of a notice, which follows its kind byte.
  void on_report(Rank peer, std::span<const std::byte> body);
  void on_rates(Rank peer, std::span<const std::byte> body);
  void on_end(Rank peer);
  // The plans of a new communicator take this NIC of this rank for lost. If that is wrong, or turns
  // out so, the rates will say it.
  void doubt(NicId nic);
  // Returns whether there is anything to do now. Every pass asks.
  bool due(TimeNs now) const { return now >= look_at_ || engine_.nics().drained() != drained_; }
  // Does it. `leaving`: this rank leaves all its communicators, so its paths say nothing of NICs.
  void progress(TimeNs now, bool leaving);
  TimeNs next_timeout() const { return next_; }

  // The rates of the NICs that a rank has reported. They change only with the version.
  const RateTable& rates() const { return rates_; }
  uint64_t version() const { return version_; }
  // Returns the rate of a NIC of the job's host; nothing: no rank has reported it.
  std::optional<NicRate> rate_of(uint32_t host, const std::string& nic) const;
  // Returns how many messages were refused because no correct rank sends them.
  uint64_t refused() const { return refused_; }
  void check_invariants() const;

 private:
  // The sight of another host by one of this rank's NICs: whether some of the paths to the ranks
  // there are up, and whether some are not.
  struct Sight {
    bool reached = false;
    bool missed = false;
  };

  // The work of the rank that decides.
  struct Decision {
    HealthMap map;
    std::vector<Rank> unanswered;  // have reported, and may not have the table
  };

  void wake() { next_ = look_at_ = 0; }
  size_t own_nic_count() const { return blamed_.size(); }
  bool has_gone(Rank rank) const;
  bool speaks_for(NicId nic) const;
  std::optional<NicRate> rate_at(uint32_t host, uint16_t rail) const;
  std::vector<std::vector<Sight>> look_around() const;
  NicReach reach_by(NicId nic, const std::vector<Sight>& hosts);
  HostReach momentary();
  NicReport report_of(const HostReach& reach) const;
  void watch_rates(TimeNs now);
  void report(Rank decides, TimeNs now);
  void begin_to_decide(TimeNs now);
  void decide(TimeNs now);
  void send_rates(Rank to, uint32_t part);
  uint32_t hosts_per_part() const;
  uint32_t parts() const;
  std::span<const RailRate> part_of(const RateTable& table, uint32_t part) const;
  void apply(RateTable rates);
  void refuse(Rank peer, const Status& why);

  ProgressEngine& engine_;
  const Clock& clock_;
  const std::vector<bool>& ended_;
  const HostNics& nics_;
  std::vector<bool> blamed_;  // by NIC: a verdict names it, and it has not reached all hosts since
  ReachFilter filter_;        // watches this rank's NICs
  RateWatch rate_watch_;
  NicWindows windows_;
  NicReport told_;          // the last report
  bool must_tell_ = false;  // the rank that decides now may not know what this rank has said
  Rank decides_;
  std::optional<Decision> decision_;   // while this rank decides
  std::map<Rank, NicReport> reports_;  // while it does not: of ranks that think otherwise
  RateTable rates_;
  uint64_t version_ = 0;
  bool changed_ = true;  // progress() must look at the paths
  NicSet drained_;       // as of the last progress()
  TimeNs next_ = 0;
  TimeNs look_at_ = 0;  // <= next_: it also looks when a window ends, without a timer
  uint64_t refused_ = 0;
};

}  // namespace r2ccl
