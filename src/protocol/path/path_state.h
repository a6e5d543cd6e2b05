// The life of one path at one end. Pure. The phase changes only here, along legal edges:
//
//   down -> validating -> up <-> suspect
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
  // Returns the beginning of the phase for its duration: compensate_pause() moves it.
  TimeNs since() const { return since_; }
  // Returns the beginning of the phase for events: an event that came later came in this phase.
  TimeNs entered_at() const { return entered_at_; }
  // Returns when the path last came up; a suspicion in between does not count.
  TimeNs up_since() const { return up_since_; }
  // Returns whether the path is connected: frames may be written and read.
  bool connected() const { return phase_ != PathPhase::down; }
  // Returns whether the path may get new chunks.
  bool usable() const { return phase_ == PathPhase::up; }
  // Returns whether a frame or a report with this incarnation is about the present connection. Any
  // other one is late: its connection is over.
  bool is_current(Incarnation incarnation) const {
    return connected() && (incarnation == incarnation_ || mutated(Mutant::any_incarnation));
  }

  // Records a connection under a new, larger incarnation. Legal in `down` only.
  void connect(Incarnation incarnation, TimeNs now);
  // Records that full-size frames have passed both ways. Legal in `validating` only.
  void mark_validated(TimeNs now);
  // Records that the path is late by its own estimates while others are not. Legal in `up` only.
  void suspect(TimeNs now);
  // Records that the overdue data has arrived. Legal in `suspect` only.
  void clear(TimeNs now);
  // Moves the beginning of the phase by a pause in which this process could not look, so that the
  // pause counts neither as a long suspicion nor as a long validation.
  void compensate_pause(TimeNs duration, TimeNs now);
  // Records that the path failed. Legal in every phase but `down`.
  void fail(DownCause cause, TimeNs now);

  void check_invariants() const;

 private:
  void become(PathPhase phase, DownCause cause, TimeNs now);

  PathPhase phase_ = PathPhase::down;
  DownCause cause_ = DownCause::none;  // none in every phase but `down`
  Incarnation incarnation_;            // not 0 in every phase but `down`; only grows
  TimeNs since_ = 0;
  TimeNs entered_at_ = 0;  // <= since_
  TimeNs up_since_ = 0;    // <= since_ in `up` and `suspect`
};

}  // namespace r2ccl
