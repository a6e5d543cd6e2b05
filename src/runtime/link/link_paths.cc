// The life of each path, from validation to failure.
#include "runtime/link/link_paths.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

constexpr TimeNs kValidationMax = 1 * kSecond;
// The other connection of a process that dies ends within microseconds, if it gets a processor.
constexpr TimeNs kEndKept = 1 * kSecond;
constexpr TimeNs kValidationInterval = 20 * kMillisecond;

// Returns whether one end ended the path for what it saw itself, while both processes lived.
bool is_explained(DownCause cause) {
  return direct(cause) || cause == DownCause::corrupted || cause == DownCause::protocol ||
         cause == DownCause::closing;
}

}  // namespace

std::vector<PathEnd*> LinkPaths::path_ends() const {
  return {with_relay().begin(), with_relay().end()};
}

void LinkPaths::act_on_breaks(TimeNs now) {
  for (Path* path : all()) {
    if (path->broken) fail_path(*path, *path->broken, path->peer_cause, path->broken_why, now);
  }
  const bool any =
      std::ranges::any_of(all(), [](const Path* path) { return path->state.connected(); });
  if (any) liveness_.on_connected();
}

void LinkPaths::progress(TimeNs now, TimeNs idle_ns) {
  resume_paused(now);
  compensate_idle(idle_ns, now);
  if (!settled_) settle(now);
  const bool carries = note_data_paths(now);
  if (ends_kept_) look_at_ends(now);
  if (settings_.monitor) detector_.run(now);
  const TimeNs silence = detector_.silence(now);
  if (silence > 0 && liveness_.on_silence(silence, now)) hint_all(now);
  if (has_relay_ && (!carries || uses_relay() || is_cut_off(now))) seek_relay(now);
  dial(now);
  if (!events_.peer_ended()) {
    auto end = liveness_.check(
        {events_.peer_said_goodbye(), uses_relay() && events_.said_goodbye()}, silence, now);
    if (end && end->end == PeerEnd::cut_off) {
      if (const std::string why = why_unreached().why; !why.empty()) end->why += ": " + why;
    }
    if (end) events_.on_peer_gone(*end);
  }
  choose_standby();
  if (uses_relay()) end_surplus_relay(now);
  watch_reach(now);
}

TimeNs LinkPaths::next_timeout(TimeNs now) const {
  TimeNs next = liveness_.next_timeout(now);
  if (settings_.monitor) next = std::min(next, detector_.next_timeout(now));
  for (const PathSlot& slot : std::span(slots_).first(in_use_)) {
    const Path& path = *slot.path;
    if (path.paused()) {
      next = std::min(next, path.paused_until());
      continue;
    }
    next = std::min(next, slot.dialer->next_timeout());
    if (!settled_) next = std::min(next, next_settling(slot, now));
    if (!path.state.connected() && may_dial(slot) && !slot.dialer->busy() &&
        !slot.dialer->waits() && may_open(path, now)) {
      next = std::min(next, path.backoff.next_attempt());
    }
  }
  return uses_relay() ? std::min(next, relay_over_at()) : next;
}

TimeNs LinkPaths::next_settling(const PathSlot& slot, TimeNs now) const {
  if (slot.path->proves()) return settings_.monitor ? now + kValidationInterval : kNever;
  const bool joins = may_join(slot) && !slot.dialer->busy() && !slot.dialer->waits();
  return joins ? slot.next_join : kNever;
}

void LinkPaths::on_frame(TimeNs now) {
  if (detector_.on_frame(now)) {
    // The connections seemed dead, but they are not: keep them.
    for (PathSlot& slot : slots_) {
      const PathDialer& dialer = *slot.dialer;
      if (slot.path->state.connected() && !dialer.probing() && !dialer.joining()) {
        slot.dialer->cancel();
      }
    }
  }
  liveness_.on_alive();
}

void LinkPaths::compensate_idle(TimeNs idle_ns, TimeNs now) {
  if (idle_ns <= limits::kPauseThreshold) return;
  detector_.compensate_idle(idle_ns, now);
  liveness_.compensate_idle(idle_ns, now);
}

// One connection of a path was reset. How the other one ends shows whether the process has died.
void LinkPaths::look_at_ends(TimeNs now) {
  ends_kept_ = false;
  for (Path* path : all()) {
    if (!path->keeps_end()) continue;
    const KernelClose closed = path->look_at_end();
    if (closed != KernelClose::none) liveness_.on_closed(path->index, closed);
    if (now - path->state.since() > kEndKept) path->drop_end();
    ends_kept_ = ends_kept_ || path->keeps_end();
  }
}

// The shortage is this host's, so no outstanding chunk on any path counts as late for it.
void LinkPaths::resume_paused(TimeNs now) {
  bool any = false;
  for (Path* path : all()) any = path->resume(now) || any;
  if (any) detector_.compensate_pause(limits::kShortagePause, now);
}

void LinkPaths::settle(TimeNs now) {
  settled_ = true;
  for (Path* path : all()) {
    if (path->broken) settled_ = false;
    if (!path->state.connected() || path->broken) continue;
    if (path->proves()) check_proof(*path, now);
    if (path->state.phase() == PathPhase::validating && !path->proves()) validate(*path, now);
    settled_ = settled_ && !path->proves() && !(wants_data_ && path->lacks_data());
  }
}

// Full-size frames must pass both ways before the path carries chunks. Where the path is up
// already, the frame of this end is as late as a chunk would be, and the detector finds that.
void LinkPaths::check_proof(Path& path, TimeNs now) {
  const bool joined = path.state.phase() != PathPhase::validating;
  if (path.proved() || (joined && mutated(Mutant::join_unproved))) {
    path.data_passes = true;
    if (joined) events_.on_state_changed();
  } else if (!joined && now - path.state.since() > kValidationMax) {
    fail_path(path, DownCause::silent, DownCause::none, "full-size frames do not pass", now);
  } else if (path.model.frames_sent() == 0 && path.can_start_frame()) {
    events_.send_proof(path, now);
  }
}

void LinkPaths::validate(Path& path, TimeNs now) {
  path.state.mark_validated(now);
  if (path.history.downs > 0) ++path.history.returns;
  path.history.attempt.clear();
  path.history.answered = false;
  path.history.attempts = 0;
  events_.on_state_changed();
  report_change(path, PathPhase::validating, now, {});
}

// Returns whether a path between the hosts carries data, or may again at once.
bool LinkPaths::note_data_paths(TimeNs now) {
  bool carries = false;
  bool carried = false;
  for (const Path* path : all()) {
    if (path->control_only) continue;
    const PathPhase phase = path->state.phase();
    carries = carries || phase == PathPhase::up || phase == PathPhase::suspect;
    carried = carried || path->history.downs > 0;
  }
  liveness_.on_data_paths(carries, carried, now);
  return carries;
}

void LinkPaths::send_ping(PathEnd& path, TimeNs now) {
  events_.send_ping(path_of(path), now);
}

void LinkPaths::suspect(PathEnd& end, const char* stream, TimeNs late, TimeNs now) {
  Path& path = path_of(end);
  path.state.suspect(now);
  ++path.history.suspicions;
  R2CCL_LOG(info, "path %s to rank %d is suspect: its %s is overdue by %.1f ms",
            path.spec.local_name.c_str(), end_.peer.value(), stream,
            static_cast<double>(late) / 1e6);
  events_.on_suspect(path);
  events_.on_state_changed();
  report_change(path, PathPhase::up, now, {});
}

void LinkPaths::clear(PathEnd& end, TimeNs now) {
  end.state.clear(now);
  events_.on_state_changed();
  report_change(path_of(end), PathPhase::suspect, now, {});
}

void LinkPaths::fail(PathEnd& path, DownCause cause, const char* why, TimeNs now) {
  fail_path(path_of(path), cause, DownCause::none, why, now);
}

bool LinkPaths::ping(NicId local_nic) {
  bool shares = false;
  for (Path* path : all()) {
    if (path->spec.local_nic != local_nic || !path->good_control()) continue;
    shares = true;
    if (path->health.pings.empty()) events_.send_ping(*path, now());
  }
  return shares;
}

void LinkPaths::report_change(const Path& path, PathPhase from, TimeNs now, PathEvent event) {
  event.peer = end_.peer;
  event.path = path.spec.id;
  event.local_nic = path.spec.relay ? path.spec.local_nic : path.nic();
  event.remote_nic = path.spec.remote_nic;
  event.incarnation = path.state.incarnation();
  event.from = from;
  event.to = path.state.phase();
  event.at = now;
  event.data = path.has_data();
  events_.on_path_event(event);
}

PathEvent LinkPaths::failure_event(const Path& path, DownCause cause, DownCause peer_cause,
                                   const std::string& why, TimeNs now) const {
  const auto& outstanding = path.model.outstanding();
  PathEvent event;
  event.cause = cause;
  event.peer_cause = peer_cause;
  event.why = why;
  event.at = now;
  // The operator who took the NIC out of service may pull the cable. That is no failure of the
  // path.
  event.planned = path.standby && outstanding.empty();
  const PathPhase phase = path.state.phase();
  if (phase == PathPhase::up || phase == PathPhase::suspect) {
    event.up_ns = now - path.state.up_since();
  }
  if (!outstanding.empty()) event.detected_ns = now - outstanding.front().sent_at;
  event.aftermath = cause == DownCause::stalled && detector_.owed_in_silence(path);
  return event;
}

void LinkPaths::fail_path(Path& path, DownCause cause, DownCause peer_cause, const std::string& why,
                          TimeNs now) {
  const PathPhase from = path.state.phase();
  PathEvent event = failure_event(path, cause, peer_cause, why, now);
  const bool fault = (from == PathPhase::up || from == PathPhase::suspect) && !event.planned;
  const bool goodbye = events_.peer_said_goodbye();
  slots_[path.index].dialer->cancel();
  KernelClose closed = std::exchange(path.closed, KernelClose::none);
  // In memory the peer's own kernel ends the connection.
  if (path.spec.is_shm() && closed == KernelClose::reset) closed = KernelClose::ended;
  // The connections of a relay path end at a kernel that says nothing of the peer.
  if (!path.spec.relay) {
    is_explained(cause == DownCause::peer_notice ? peer_cause : cause)
        ? liveness_.on_explained(path.index)
        : liveness_.on_failed(path.index, closed, now);
  }
  if (from == PathPhase::up) events_.on_failing(path);
  // The peer must not take the aftermath for a stall of the path either.
  const DownCause told = event.aftermath ? DownCause::connection_lost : cause;
  event.retransmitted_bytes =
      events_.on_failed(detach(path, goodbye ? DownCause::closing : told, now,
                               closed == KernelClose::reset && !path.spec.relay));
  ends_kept_ = ends_kept_ || path.keeps_end();
  path.backoff.on_down(now, fault);
  path.note_failure(event, fault);
  if (goodbye) path.backoff.on_hint(now);  // probably the peer is leaving: find out soon
  events_.on_state_changed();
  const bool any =
      std::ranges::any_of(all(), [](const Path* each) { return each->state.connected(); });
  if (!any && liveness_.on_all_down(now)) {
    detector_.on_all_down();
    hint_all(now);
  }
  if (any && closed != KernelClose::none && !goodbye) detector_.on_doubt(now);
  if (!goodbye) report_change(path, from, now, std::move(event));
}

void LinkPaths::hint_all(TimeNs now) {
  for (Path* path : all()) path->backoff.on_hint(now);
}

// Closes the connections. Returns the transmissions that were outstanding.
Fifo<Transmission> LinkPaths::detach(Path& path, DownCause cause, TimeNs now, bool keeps_end) {
  const uint64_t outstanding = path.model.bytes_outstanding();
  Fifo<Transmission> lost = path.detach(cause, now, keeps_end);  // which may run out of memory
  host_.queue(path.nic()).on_lost(outstanding);
  return lost;
}

void LinkPaths::close(TimeNs now) {
  for (PathSlot& slot : slots_) {
    slot.dialer->cancel();
    slot.pending_data.reset();
    (void)detach(*slot.path, DownCause::closing, now);
  }
}

void LinkPaths::halt() noexcept {
  for (PathSlot& slot : slots_) {
    slot.dialer->cancel();
    slot.pending_data.reset();
    slot.path->halt();
  }
  forget_outstanding();
}

bool LinkPaths::send_last(ControlFrame& frame, std::vector<std::byte>& memory) {
  bool all = true;
  for (PathSlot& slot : slots_) {
    if (!slot.last_sent) {
      const IoKind kind = slot.path->send_last(frame, memory);
      slot.last_sent = kind != IoKind::blocked && kind != IoKind::refused;
    }
    all = all && slot.last_sent;
  }
  return all;
}

void LinkPaths::hang_up() noexcept {
  for (Path* path : this->all()) path->hang_up();
}

void LinkPaths::on_nic_change(NicId nic, bool usable, DownCause cause) {
  for (PathSlot& slot : std::span(slots_).first(in_use_)) {
    Path& path = *slot.path;
    const bool leaves_by_it = path.state.connected() || path.spec.relay;
    if ((leaves_by_it ? path.nic() : path.spec.local_nic) != nic) continue;
    events_.wake();
    if (usable && !path.spec.relay) {
      slot.call_due = !opens() && !path.state.connected() && !mutated(Mutant::return_untold);
      hint(slot);
    } else if (!usable && path.state.connected()) {
      fail_path(path, cause, DownCause::none, path.spec.local_name + " " + to_string(cause), now());
    }
  }
}

bool LinkPaths::want_data() {
  if (wants_data_) return false;
  wants_data_ = true;
  settled_ = false;
  return true;
}

// Returns whether the path takes the messages of this link now, or will as soon as some come.
bool LinkPaths::serves(const Path& path) const {
  return path.state.usable() && !path.control_only && (path.data_passes || !wants_data_);
}

bool LinkPaths::ready() const {
  return std::ranges::any_of(
      all(), [](const Path* path) { return !path->control_only && path->state.usable(); });
}

Path* LinkPaths::find(PathId id) const {
  for (Path* path : with_relay()) {
    if (path->spec.id == id) return path;
  }
  return nullptr;
}

void LinkPaths::check_invariants() const {
  detector_.check_invariants();
  scheduler_.check_invariants();
  liveness_.check_invariants();
  R2CCL_CHECK(shown_ <= in_use_ && in_use_ <= slots_.size());
  R2CCL_CHECK(!unreached_ || silent_told_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Path& path = *slots_[i].path;
    R2CCL_CHECK(path.index == i);
    R2CCL_CHECK(i < in_use_ || !path.state.connected());
    R2CCL_CHECK(!path.standby || path.drained || path.spec.fallback);
    R2CCL_CHECK(!settled_ || (!path.proves() && path.state.phase() != PathPhase::validating));
    R2CCL_CHECK(!settled_ || !wants_data_ || !path.lacks_data());
    R2CCL_CHECK(wants_data_ || !path.has_data());
    const auto& pending = slots_[i].pending_data;
    R2CCL_CHECK(!pending || pending->session.incarnation > path.state.incarnation());
    R2CCL_CHECK(path.state.connected() || path.model.outstanding().empty());
    path.check_invariants();
  }
}

}  // namespace r2ccl
