// From this rank's path events to the job's list of verdicts: reports what it sees to the lowest
// live rank, which judges for all and tells everybody, so that every rank holds the same list.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "protocol/blame.h"
#include "runtime/progress_engine.h"

namespace r2ccl {

class Incidents {
 public:
  Incidents(ProgressEngine& engine, const Clock& clock);

  void on_path_event(const PathEvent& event);
  // What the notice's kind byte says is ours.
  void on_observation(std::span<const std::byte> bytes);
  void on_verdict(std::span<const std::byte> bytes);
  void on_peer_gone(Rank peer);
  // Sends what is due. `ended(rank)`: this rank left or died.
  void progress(const std::vector<bool>& ended);
  TimeNs next_timeout() const;

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  const std::vector<std::string>& hosts() const { return host_names_; }
  uint32_t host_of(Rank rank) const { return host_of_[static_cast<size_t>(rank.value())]; }

 private:
  struct Pending {
    Observation observation;
    PathId path;
    TimeNs due = 0;
  };
  NicName name_of(Rank rank, NicId nic) const;
  std::string words_for(const Verdict& verdict) const;
  void add(const Verdict& verdict);

  ProgressEngine& engine_;
  const Clock& clock_;
  std::vector<std::string> host_names_;
  std::vector<uint32_t> host_of_;  // by rank
  std::vector<Pending> pending_;
  Judge judge_{0};
  std::vector<Verdict> verdicts_;
};

}  // namespace r2ccl
