// Whether the verdicts of a rank count here. A rank of the job may be faulty, so they do only while
// it can be the localising rank: it is connected to no lower rank. Only the two ends of a link know
// whether they are connected, and they learn of a loss at different times. So a verdict waits until
// it counts for each lower rank: this one is not connected to that rank either, or that rank
// vouches. Also this rank's own waits: a report may reach it before it knows that it localises.
//
// A connection that is lost later says nothing of an old verdict, so this rank looks at its
// connections, and vouches, for some seconds only. The word of a rank that was out of reach may
// come later: it counts whenever it comes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
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
    TimeNs until = kNever;  // connections count; kNever: no more
    bool heard = false;     // from that rank itself
    bool vouched = false;   // by this rank
    std::vector<Rank> vouchers;
    std::vector<Rank> awaited;  // the lower ranks that must vouch, once connections count no more
  };
  explicit VerdictTrust(ProgressEngine& engine) : engine_(engine) {}

  // Records the ranks that have left or died; the vector must outlive this object.
  void look(const std::vector<bool>& ended, TimeNs now);
  // Takes a verdict. Returns whether it counts; else it waits.
  bool hear(Rank by, const Verdict& verdict, TimeNs now);
  // Keeps a verdict of this rank until it localises.
  void keep(const Verdict& verdict, TimeNs now) {
    if (Said* said = find_or_add(engine_.self(), verdict, now)) said->heard = true;
  }
  // Handles the body of a notice: the verdict of a higher rank counts for the peer.
  void on_vouch(Rank peer, std::span<const std::byte> bytes, TimeNs now);
  // Vouches for the verdicts that count for this rank. Returns those that count from now on, and
  // forgets old ones. `localises`: this rank does.
  std::vector<Said> settle(bool localises, TimeNs now) {
    return waiting_.empty() ? std::vector<Said>() : settle_waiting(localises, now);
  }
  bool is_quiet() const { return waiting_.empty(); }
  // Records a verdict that counts, or that this rank makes. Returns whether it is new: several
  // ranks may make it.
  bool is_new(const Verdict& verdict);
  void check_invariants() const;
  TimeNs next_timeout() const {
    TimeNs next = kNever;
    for (const Said& said : waiting_) next = std::min(next, said.until);
    return next;
  }

 private:
  std::vector<Said> settle_waiting(bool localises, TimeNs now);
  bool steady(Rank peer, TimeNs now) const;
  std::vector<Rank> missing(const Said& said, TimeNs now) const;
  bool is_against_itself(const Said& said) const;
  void vouch(Said& said, TimeNs now);
  Said* find_or_add(Rank by, const Verdict& verdict, TimeNs now);

  ProgressEngine& engine_;
  const std::vector<bool>* ended_ = nullptr;  // null: none so far
  TimeNs ready_at_ = 0;                       // when all links were up; 0: not yet
  std::vector<Said> waiting_;                 // oldest first
  std::vector<Verdict> counted_;              // the latest ones, oldest first
};

}  // namespace r2ccl
