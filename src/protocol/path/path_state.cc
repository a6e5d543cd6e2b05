#include "protocol/path/path_state.h"

#include <algorithm>

#include "base/check.h"

namespace r2ccl {
namespace {

bool legal(PathPhase from, PathPhase to) {
  switch (from) {
    case PathPhase::down:
      return to == PathPhase::validating;
    case PathPhase::validating:
      return to == PathPhase::up || to == PathPhase::down;
    case PathPhase::up:
      return to == PathPhase::suspect || to == PathPhase::down;
    case PathPhase::suspect:
      return to == PathPhase::up || to == PathPhase::down;
  }
  return false;
}

}  // namespace

void PathState::become(PathPhase phase, DownCause cause, TimeNs now) {
  R2CCL_CHECK(legal(phase_, phase));
  phase_ = phase;
  cause_ = cause;
  since_ = now;
  entered_at_ = now;
}

void PathState::connect(Incarnation incarnation, TimeNs now) {
  R2CCL_CHECK(incarnation > incarnation_);
  become(PathPhase::validating, DownCause::none, now);
  incarnation_ = incarnation;
}

void PathState::mark_validated(TimeNs now) {
  R2CCL_CHECK(phase_ == PathPhase::validating);
  become(PathPhase::up, DownCause::none, now);
  up_since_ = now;
}

void PathState::suspect(TimeNs now) {
  become(PathPhase::suspect, DownCause::none, now);
}

void PathState::clear(TimeNs now) {
  R2CCL_CHECK(phase_ == PathPhase::suspect);
  become(PathPhase::up, DownCause::none, now);
}

void PathState::compensate_pause(TimeNs duration, TimeNs now) {
  R2CCL_CHECK(duration >= 0);
  if (phase_ == PathPhase::suspect || phase_ == PathPhase::validating) {
    since_ = std::max(since_, std::min(since_ + duration, now));
  }
}

void PathState::fail(DownCause cause, TimeNs now) {
  R2CCL_CHECK(cause != DownCause::none);
  become(PathPhase::down, cause, now);
}

void PathState::check_invariants() const {
  R2CCL_CHECK(!connected() || cause_ == DownCause::none);
  R2CCL_CHECK(!connected() || incarnation_ != Incarnation());
  const bool been_up = phase_ == PathPhase::up || phase_ == PathPhase::suspect;
  R2CCL_CHECK(!been_up || up_since_ <= since_);
  R2CCL_CHECK(entered_at_ <= since_);
}

}  // namespace r2ccl
