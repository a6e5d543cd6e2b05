// Whether a rank's verdicts count here. A rank of the job may be faulty, so they do only while it
// can be the localising rank: the lowest one that it has a control stream to is itself. Ranks learn
// of a lost stream at different times, so a verdict that does not count yet waits for the news.
// Also this rank's own: a report may reach it before it knows that it localises, or by mistake.
// Only the two ends of a link know whether it was lost. So a lower rank that a verdict counts for
// passes it on: then it counts for those that reach that rank too.
#pragma once

#include <vector>

#include "base/clock.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

class VerdictTrust {
 public:
  // A verdict of another rank, or of this one.
  struct Said {
    Rank by;
    Verdict verdict;
    TimeNs until = kNever;
  };
  // `host_of`: by rank; must outlive this object.
  VerdictTrust(ProgressEngine& engine, const std::vector<uint32_t>& host_of)
      : engine_(engine), host_of_(host_of) {}

  // Records the ranks that have left or died; the vector must outlive this object.
  void look(const std::vector<bool>& ended, TimeNs now);
  bool counts(Rank by, const Verdict& verdict, TimeNs now) const;
  // Returns whether this rank must pass the verdict of another one on.
  bool passes_on(Rank by, const Verdict& verdict) const {
    return by > engine_.self() && !is_against_itself(by, verdict);
  }
  // Records a verdict that counts, or that this rank makes. Returns whether it is new: several ranks
  // may make it, or pass it on.
  bool is_new(const Verdict& verdict);
  // Keeps a verdict that does not count yet.
  void doubt(Rank by, const Verdict& verdict, TimeNs now);
  // Returns the kept verdicts that count by now, and forgets those and the old ones. `localises`:
  // this rank does.
  std::vector<Said> settle(bool localises, TimeNs now);
  TimeNs next_timeout() const { return doubtful_.empty() ? kNever : doubtful_.front().until; }

 private:
  bool may_localise(Rank rank, TimeNs now) const;
  bool is_against_itself(Rank by, const Verdict& verdict) const;

  ProgressEngine& engine_;
  const std::vector<uint32_t>& host_of_;
  const std::vector<bool>* ended_ = nullptr;  // null: none so far
  TimeNs ready_at_ = kNever;                  // when all links were up
  std::vector<Said> doubtful_;                // oldest first
  std::vector<Verdict> counted_;              // the latest ones, oldest first
};

}  // namespace r2ccl
