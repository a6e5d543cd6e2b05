// Turns this rank's path events into the job's list of verdicts. Each rank reports to the lowest
// rank that it is connected to. That localising rank makes the verdicts for all and sends
// them to every rank, so every rank holds the same list. It also asks ranks of some hosts to probe
// which NICs reach each other.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/diagnosis/loss_localiser.h"
#include "runtime/diagnosis/loss_watch.h"
#include "runtime/diagnosis/nic_prober.h"
#include "runtime/diagnosis/path_excuses.h"
#include "runtime/diagnosis/verdict_trust.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/peers/host_nics.h"
#include "runtime/query/rank_query.h"

namespace r2ccl {

class FaultReporter {
 public:
  // `made(place)`: called when the verdict at this place of the list is new, or has replaced a less
  // precise one; may be empty. `logs`: each verdict is a line of the log; else `made` tells it.
  // `host_nics`, `query`: of the job; they must outlive this.
  FaultReporter(ProgressEngine& engine, const HostNics& host_nics, RankQuery& query,
                const Clock& clock, std::function<void(size_t place)> made = {}, bool logs = true);

  void on_path_event(const PathEvent& event);
  // Handle the body of a notice of this peer, which follows its kind byte. A peer may be faulty: it
  // speaks for itself and its host alone, and its verdicts count while it can be the localising
  // rank.
  void on_observation(Rank peer, std::span<const std::byte> bytes);
  void on_excuse(Rank peer, std::span<const std::byte> bytes) { excuses_.hear(peer, bytes); }
  void on_verdict(Rank peer, std::span<const std::byte> bytes);
  void on_vouch(Rank peer, std::span<const std::byte> bytes) {
    trust_.on_vouch(peer, bytes, clock_.now());
  }
  void on_losses(Rank peer, std::span<const std::byte> bytes);
  // `end`: goodbye also when the peer's departure is expected.
  void on_peer_gone(Rank peer, PeerEnd end);
  // Sends all reports and requests that are due. `ended(rank)`: this rank left or died. It must
  // outlive this object.
  void progress(const std::vector<bool>& ended);
  TimeNs next_timeout() const;
  // Returns whether a verdict is still to be made here, or evidence for one to be sent.
  bool busy() const { return next_timeout() != kNever; }

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  const JobMap& job() const { return engine_.job(); }

  void check_invariants() const {
    fault_localiser_.check_invariants();
    loss_localiser_.check_invariants();
    trust_.check_invariants();
  }

 private:
  uint32_t host_of(Rank rank) const { return job().host_of(rank); }
  // A report is sent at once, again when the stall is known, and anew when another rank localises.
  // One that does not arrive in time is taken back, and sent again only if its path is still lost.
  struct Report {
    Observation observation;
    std::optional<PathId> path;  // none: a report on a whole process
    TimeNs lost_at = 0;
    TimeNs settled_at = 0;
    bool settled = false;
    std::optional<Rank> told;
    TimeNs told_at = 0;  // when it was first told to that rank
    bool arrived = false;
    bool late = false;
    bool shared = false;  // the other end is told, if it must be
  };
  NicName name_of(Rank rank, NicId nic) const;
  void take(const Verdict& verdict, TimeNs now);
  void add(const Verdict& verdict);
  bool is_cut_off_here(Rank peer) const;
  void tell(const Report& report, Rank localiser, TimeNs now);
  void take_back(const Report& report, Rank localiser, TimeNs now);
  Rank recipient(const Report& report, Rank localiser) const;
  bool delivered(const Report& report, Rank localiser) const;
  bool is_late(const Report& report, TimeNs now) const;
  bool is_over(const Report& report) const;
  void take_back_late(TimeNs now);
  void report_all(Rank localiser, TimeNs now);
  RankQuery::Handler probe_handler();
  bool may_localise(Rank peer) const;
  void ask(const ProbeRequest& request, const std::vector<bool>& ended);
  void probe(Rank requester, const ProbeRequest& request);
  std::vector<NicProber::Target> targets_of(const ProbeRequest& request) const;
  void on_probed(Rank requester, const ProbeAnswer& answer);
  void report_losses(const LossReport& report, Rank localiser, TimeNs now);
  bool is_quiet() const {
    return reports_.empty() && fault_localiser_.is_quiet() && loss_localiser_.is_quiet() &&
           trust_.is_quiet() && prober_.is_quiet();
  }
  size_t place_of(const Verdict& verdict) const;
  void announce_one(Verdict verdict, const std::vector<bool>& ended);
  void announce(const std::vector<bool>& ended, bool localises, TimeNs now);

  ProgressEngine& engine_;
  const HostNics& host_nics_;
  RankQuery& query_;
  const Clock& clock_;
  const std::function<void(size_t)> made_;
  const bool logs_;
  std::vector<Report> reports_;
  FaultLocaliser fault_localiser_{{}};
  LossLocaliser loss_localiser_{{}};
  LossWatch losses_;
  PathExcuses excuses_;
  VerdictTrust trust_;
  NicProber prober_;
  std::vector<Verdict> verdicts_;
};

}  // namespace r2ccl
