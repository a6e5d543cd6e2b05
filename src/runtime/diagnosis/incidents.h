// From this rank's path events to the job's list of verdicts: reports what it sees to the lowest
// rank that it has a lane to, which judges for all and tells everybody, so that every rank holds
// the same list. The judge asks ranks of some hosts to try which NICs reach each other.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/diagnosis/blame.h"
#include "protocol/diagnosis/loss_localiser.h"
#include "runtime/diagnosis/loss_watch.h"
#include "runtime/diagnosis/nic_prober.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

class Incidents {
 public:
  Incidents(ProgressEngine& engine, const Clock& clock);

  void on_path_event(const PathEvent& event);
  // What the notice's kind byte says is ours.
  void on_observation(std::span<const std::byte> bytes);
  void on_verdict(std::span<const std::byte> bytes);
  void on_probe_request(Rank peer, std::span<const std::byte> bytes);
  void on_probe_answer(std::span<const std::byte> bytes);
  void on_losses(Rank peer, std::span<const std::byte> bytes);
  // `end`: goodbye also when it is no wonder that the peer has gone.
  void on_peer_gone(Rank peer, PeerEnd end);
  // Sends what is due. `ended(rank)`: this rank left or died.
  void progress(const std::vector<bool>& ended);
  TimeNs next_timeout() const;
  // Whether a verdict is still to be made here, or evidence for one to be sent.
  bool busy() const { return next_timeout() != kNever; }

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  const std::vector<std::string>& hosts() const { return host_names_; }
  uint32_t host_of(Rank rank) const { return host_of_[static_cast<size_t>(rank.value())]; }

  void check_invariants() const {
    judge_.check_invariants();
    localiser_.check_invariants();
  }

 private:
  // What is told at once, again when the stall is known, and anew when another rank judges.
  struct Report {
    Observation observation;
    std::optional<PathId> path;  // none: of a whole process
    TimeNs settled_at = 0;
    bool settled = false;
    std::optional<Rank> told;
  };
  NicName name_of(Rank rank, NicId nic) const;
  std::string words_for(const Verdict& verdict) const;
  bool is_host(const NicName& name) const { return name.host < host_names_.size(); }
  void add(const Verdict& verdict);
  Rank judging_rank(const std::vector<bool>& ended) const;
  void tell(const Report& report, Rank judge, TimeNs now);
  void take_back(const Report& report, Rank judge, TimeNs now);
  void report_all(Rank judge, TimeNs now);
  void ask(const ProbeRequest& request, const std::vector<bool>& ended);
  void probe(Rank asker, const ProbeRequest& request);
  std::vector<NicProber::Target> targets_of(const ProbeRequest& request) const;
  void on_probed(Rank asker, const ProbeAnswer& answer);
  void report_losses(Rank judge, TimeNs now);
  size_t place_of(const Verdict& verdict) const;
  void announce_one(Verdict verdict, const std::vector<bool>& ended);
  void announce(const std::vector<bool>& ended, TimeNs now);

  ProgressEngine& engine_;
  const Clock& clock_;
  std::vector<std::string> host_names_;
  std::vector<uint32_t> host_of_;  // by rank
  std::deque<Report> reports_;
  Judge judge_{{}};
  LossLocaliser localiser_{{}};
  LossWatch losses_;
  NicProber prober_;
  std::vector<Verdict> verdicts_;
};

}  // namespace r2ccl
