// The life of one path at one end. Pure; one place where the phase changes, legal edges only.
//
//   down -> proving -> up <-> suspect
//     ^________|________|________|
#pragma once

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutant.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

class PathState {
 public:
  PathPhase phase() const { return phase_; }
  DownCause cause() const { return cause_; }
  Incarnation incarnation() const { return incarnation_; }
  TimeNs since() const { return since_; }
  // When it last came up; suspicion in between does not count.
  TimeNs up_since() const { return up_since_; }
  // Connected: frames may be written and read.
  bool connected() const { return phase_ != PathPhase::down; }
  // May be given new chunks.
  bool usable() const { return phase_ == PathPhase::up; }
  // What names this incarnation, a frame or a report, is about the connection that is there now.
  // All else is late: it speaks of one that is over.
  bool is_current(Incarnation incarnation) const {
    return connected() && (incarnation == incarnation_ || mutated(Mutant::any_incarnation));
  }

  // A connection under a new, larger incarnation is there. Legal in `down` only.
  void connect(Incarnation incarnation, TimeNs now);
  // Full-size frames have passed both ways. Legal in `proving` only.
  void prove(TimeNs now);
  // Late by its own standards while others were not. Legal in `up` only.
  void suspect(TimeNs now);
  // What was late has arrived. Legal in `suspect` only.
  void clear(TimeNs now);
  // Legal in every phase but `down`.
  void fail(DownCause cause, TimeNs now);

  void check_invariants() const;

 private:
  void become(PathPhase phase, DownCause cause, TimeNs now);

  PathPhase phase_ = PathPhase::down;
  DownCause cause_ = DownCause::none;  // none in every phase but `down`
  Incarnation incarnation_;            // not 0 in every phase but `down`; only grows
  TimeNs since_ = 0;
  TimeNs up_since_ = 0;  // <= since_ in `up` and `suspect`
};

}  // namespace r2ccl
