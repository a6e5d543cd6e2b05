#include "protocol/path/failure_detector.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

constexpr TimeNs kPingInterval = 5 * kMillisecond;
constexpr TimeNs kPingIntervalMax = 200 * kMillisecond;
constexpr TimeNs kControlMargin = 10 * kMillisecond;
constexpr TimeNs kControlMarginUnknown = 200 * kMillisecond;
// A peer that answers nothing may be stopped; then its kernel answers. The detector asks the kernel
// soon, because new connections work as soon as the network does, while TCP waits ever longer.
// Later the detector asks less often.
constexpr TimeNs kReconnectMin = 100 * kMillisecond;
constexpr TimeNs kReconnectMax = 250 * kMillisecond;
// A peer that runs is heard in each of these intervals.
constexpr TimeNs kSilentHeartbeats = 3;
// A pong on any control stream takes less than this when the peer runs. A longer one was a stop or
// a clock step.
constexpr TimeNs kRoundTripMax = 1 * kSecond;
constexpr TimeNs kCompensatedSilence = 25 * kMillisecond;
// The sender of a casual ping does not wait for its pong, but a pong later than this counts as
// missed.
constexpr TimeNs kCasualMissed = 100 * kMillisecond;
constexpr size_t kPingsMax = 32;
// Longer than the answer of a process that runs, or of a kernel, takes through a full queue.
constexpr TimeNs kAnswerLate = 200 * kMillisecond;
// run() is due this often while a path is suspect, and while the peer owes an answer.
constexpr TimeNs kSuspectInterval = 5 * kMillisecond;
constexpr TimeNs kUnheardInterval = 50 * kMillisecond;

// Returns whether the connection waits for an acknowledgement of lost packets: retransmission
// timeout.
bool is_unacknowledged(const PathEnd& path, TimeNs now) {
  if (path.model.outstanding().empty()) return false;
  const TimeNs unanswered = path.data_unanswered();
  if (unanswered == kNever) return false;
  const TimeNs waiting = now - path.model.outstanding().front().sent_at;
  return std::min(unanswered, waiting) > limits::kPathUnacknowledgedAfter;
}

// Notes that the peer's kernel has acknowledged a ping of this suspicion. The full queue of a slow
// NIC may drop the one packet of a plain connect, which TCP repeats only after a second.
void note_acknowledged_ping(PathEnd& path, TimeNs now) {
  const TimeNs from = path.state.entered_at();
  PathHealth& health = path.health;
  if (health.kernel_answered_at >= from || health.last_ping_at <= from) return;
  if (path.control_unanswered() != 0 || mutated(Mutant::tune_ping_acked)) return;
  health.kernel_answered_at = now;
}

}  // namespace

TimeNs FailureDetector::control_overdue_at(const PathEnd& path) {
  const TimeNs since = path.health.missed_since();
  if (since == kNever) return kNever;
  const TimeNs known = path.health.round_trip;
  return since + (known == 0 ? kControlMarginUnknown : 2 * known + kControlMargin);
}

// Bytes that other links send later share the NIC with the bytes that this path has sent before.
TimeNs FailureDetector::data_overdue_at(const PathEnd& path) {
  if (path.model.outstanding().empty() || path.abandoned()) return kNever;
  const Transmission& oldest = path.model.outstanding().front();
  R2CCL_CHECK(path.queue().outstanding() >= path.model.bytes_outstanding());
  const uint64_t others = path.queue().outstanding() - path.model.bytes_outstanding();
  const TimeNs shared = path.queue().time_of(others + oldest.ahead);
  return oldest.expected_at + std::max<TimeNs>(shared - oldest.wire_time, 0);
}

// Returns whether no other path can replace this one. A path on standby can: the link uses it as
// soon as no other is up.
bool FailureDetector::is_last(const PathEnd& path) const {
  return std::ranges::none_of(paths_, [&](const PathEnd* other) {
    return other != &path && !other->control_only && other->state.usable();
  });
}

bool FailureDetector::on_frame(TimeNs now) {
  heard_at_ = now;
  const bool pinged = pinged_at_ != 0;
  if (pinged && now - pinged_at_ > kCompensatedSilence) compensate_pause(now - pinged_at_, now);
  on_silence_ended(now);
  if (spacing(now) > limits::kStateResendMax) next_ping_ = std::min(next_ping_, now);
  pinged_at_ = 0;
  return pinged;
}

void FailureDetector::on_silence_ended(TimeNs now) {
  if (unheard(now) > limits::kPathSilentAfter) silence_ended_at_ = now;
}

void FailureDetector::compensate_pause(TimeNs duration, TimeNs now) {
  R2CCL_CHECK(duration >= 0);
  for (PathEnd* path : paths_) {
    if (!mutated(Mutant::tune_stops)) path->model.compensate_pause(duration);
    for (PathHealth::Ping& ping : path->health.pings) {
      ping.missed_at = std::max(ping.missed_at, std::min(ping.missed_at + duration, now));
    }
  }
}

void FailureDetector::compensate_idle(TimeNs duration, TimeNs now) {
  compensate_pause(duration, now);
  for (PathEnd* path : paths_) path->state.compensate_pause(duration, now);
  if (pinged_at_ != 0) pinged_at_ = std::min(pinged_at_ + duration, now);
}

uint32_t FailureDetector::on_ping_sent(PathEnd& path, bool casual, TimeNs now) {
  R2CCL_CHECK(path.state.connected());
  const uint32_t number = ping_number_++;
  if (ping_number_ == 0) ping_number_ = 1;
  path.health.last_ping_at = now;
  path.health.pings.push_back({number, now, casual ? now + kCasualMissed : now});
  if (path.health.pings.size() > kPingsMax) path.health.pings.pop_front();
  return number;
}

// Records a pong. It comes on the control stream of its ping, and shows that this stream works both
// ways.
void FailureDetector::on_pong(PathEnd& path, uint32_t number, TimeNs now) {
  PathHealth& health = path.health;
  while (!health.pings.empty() && health.pings.front().number <= number) {
    const PathHealth::Ping ping = health.pings.front();
    health.pings.pop_front();
    if (ping.number != number) continue;
    on_evidence(ping.sent_at);
    const TimeNs sample = std::clamp<TimeNs>(now - ping.sent_at, 1, kRoundTripMax);
    health.round_trip =
        health.round_trip == 0 ? sample : health.round_trip + (sample - health.round_trip) / 4;
    health.last_round_trip = sample;
    health.pong_at = now;
  }
}

void FailureDetector::run(TimeNs now) {
  for (PathEnd* path : paths_) {
    if (path->paused()) continue;
    if (path->state.phase() == PathPhase::up) check_up(*path, now);
    if (path->state.phase() == PathPhase::suspect) check_suspect(*path, now);
  }
  check_silence(now);
}

void FailureDetector::check_up(PathEnd& path, TimeNs now) {
  const TimeNs overdue = data_overdue_at(path);
  const bool data_late = overdue <= now;
  const bool control_late = control_overdue_at(path) <= now;
  if ((!data_late && !control_late) || mutated(Mutant::never_late)) return;
  const bool data_proof = data_late && evidence_at_ >= overdue - path.model.slack();
  const TimeNs missed = path.health.missed_since();
  const bool control_proof = control_late && evidence_at_ >= missed + kControlMargin / 2;
  ping_peer(&path, now);
  const bool proof = data_proof || control_proof || mutated(Mutant::accuse_sleepers);
  if (!proof || path.control_only) return;
  if (is_last(path) && !mutated(Mutant::tune_last_path)) {
    const TimeNs since = data_proof ? overdue : missed;
    if (evidence_at_ < since + limits::kLastPathPatience) return;
    return actions_.fail(path, DownCause::silent, "the last path is silent", now);
  }
  actions_.suspect(path, data_proof ? "data" : "control stream",
                   now - (data_proof ? overdue : missed), now);
}

void FailureDetector::check_suspect(PathEnd& path, TimeNs now) {
  if (mutated(Mutant::suspect_for_ever)) return;
  const TimeNs since = path.state.since();
  // A pause makes the suspicion shorter, but each sign of life that came in it stays one.
  const TimeNs signs_from = mutated(Mutant::tune_stop_signs) ? since : path.state.entered_at();
  const bool data_late = data_overdue_at(path) <= now;
  const bool pong = path.health.pong_at > signs_from;
  if (!data_late && (pong || control_overdue_at(path) > now)) return actions_.clear(path, now);
  note_acknowledged_ping(path, now);
  const bool kernel_answers = path.health.kernel_answered_at >= signs_from;
  if (!kernel_answers) actions_.probe_kernel(path, now);
  ping_suspect(path, pong, now);
  const TimeNs pings_from = since + limits::kPathSilentAfter / 2;
  const bool peer_alive = evidence_at_ > pings_from || mutated(Mutant::accuse_sleepers);
  if (!peer_alive || now - since < limits::kPathSilentAfter) return;
  // A slow path is not dead: one whose data still trickles has more time.
  const bool trickles = path.model.last_delivery_at() > signs_from;
  const bool sign_of_life =
      (kernel_answers || pong || trickles) && !mutated(Mutant::tune_sign_of_life);
  const TimeNs bound = is_unacknowledged(path, now) && !mutated(Mutant::tune_unacknowledged)
                           ? limits::kPathSilentAfter
                           : limits::kPathStalledAfter;
  if (sign_of_life && now - std::max(since, path.model.last_delivery_at()) < bound) return;
  actions_.fail(
      path, sign_of_life ? DownCause::stalled : DownCause::silent,
      sign_of_life ? "no progress, though the peer's kernel answers" : "nothing came through", now);
}

void FailureDetector::ping_suspect(PathEnd& path, bool pong, TimeNs now) {
  // Evidence counts from this time on, so the detector does not ask an idle peer before.
  const TimeNs pings_from = path.state.since() + limits::kPathSilentAfter / 2;
  const bool not_pinged = path.health.pings.empty() && !pong;
  // While chunks wait, the state that comes with each pong may end the suspicion.
  const bool chunks_wait = !path.model.outstanding().empty();
  const bool needs_pong = now > pings_from && evidence_at_ <= pings_from;
  if (chunks_wait || not_pinged || needs_pong) ping_peer(&path, now);
  // A pong that is late hides whether bytes still pass, which only a new ping shows.
  const TimeNs signs_from = path.state.entered_at();
  const bool asked =
      std::max(path.health.last_ping_at, path.health.kernel_answered_at) > signs_from;
  if (asked || pong || now <= pings_from || !path.control_writable() || path.broken) return;
  actions_.send_ping(path, now);
}

// Asks whether the peer runs. The pong is the comparison for the path in doubt, and brings the
// whole current state. When one idle path is in doubt, one control stream that answers tells as
// much as all of them. The detector pings all of them when the last ping had no pong, when more
// paths are in doubt, and when chunks wait, which the state may acknowledge.
void FailureDetector::ping_peer(PathEnd* in_doubt, TimeNs now) {
  if (now < next_ping_) return;
  const bool fresh = now - next_ping_ > kPingIntervalMax;
  ping_wait_ = fresh ? kPingInterval : std::min(2 * ping_wait_, 4 * kPingInterval);
  next_ping_ = now + std::max(ping_wait_, spacing(now));
  if (pinged_at_ == 0) pinged_at_ = now;
  const TimeNs last_pinged_at = std::exchange(last_pinged_at_, now);
  const bool chunks_wait = in_doubt != nullptr && !in_doubt->model.outstanding().empty();
  const bool answered = fresh || evidence_at_ >= last_pinged_at;
  const bool one_will_do = answered && !chunks_wait && !others_in_doubt(in_doubt, now);
  PathEnd* witness = one_will_do ? choose_witness(in_doubt, now) : nullptr;
  if (witness != nullptr) {
    actions_.send_ping(*witness, now);
    // A ping that is in flight on an idle control stream arrives no sooner when another follows.
    const bool owes = in_doubt == nullptr || !in_doubt->health.pings.empty();
    if (!owes && in_doubt->control_writable()) actions_.send_ping(*in_doubt, now);
    return;
  }
  for (PathEnd* path : paths_) {
    if (path->control_writable() && !path->broken) actions_.send_ping(*path, now);
  }
}

bool FailureDetector::others_in_doubt(const PathEnd* in_doubt, TimeNs now) const {
  return std::ranges::any_of(paths_, [&](const PathEnd* path) {
    return path != in_doubt && path->state.connected() &&
           (path->state.phase() == PathPhase::suspect || control_overdue_at(*path) <= now);
  });
}

// Returns the next control stream that is likely to answer: it is prompt and not itself in doubt.
PathEnd* FailureDetector::choose_witness(const PathEnd* in_doubt, TimeNs now) {
  const TimeNs prompt = actions_.prompt_round_trip(now);
  for (size_t i = 0; i < paths_.size(); ++i) {
    const size_t index = (witness_cursor_ + i) % paths_.size();
    PathEnd& path = *paths_[index];
    if (&path == in_doubt || !path.good_control() || path.health.round_trip_at(now) > prompt) {
      continue;
    }
    witness_cursor_ = index + 1;
    return &path;
  }
  return nullptr;
}

// An idle path has sent pings only. A path without a ping counts from the ping to the whole peer.
bool FailureDetector::owed_in_silence(const PathEnd& path) const {
  TimeNs since = pinged_at_ == 0 ? kNever : pinged_at_;
  if (!path.model.outstanding().empty()) {
    since = path.model.outstanding().front().sent_at;
  } else if (!path.health.pings.empty()) {
    since = path.health.pings.front().sent_at;
  }
  return since < silence_ended_at_;
}

TimeNs FailureDetector::silence(TimeNs now) const {
  if (pinged_at_ == 0) return 0;
  TimeNs heard_at = pinged_at_;
  for (const PathEnd* path : paths_) {
    heard_at = std::max({heard_at, path->health.kernel_answered_at, path->health.acknowledged_at});
  }
  return now - heard_at;
}

Answerer FailureDetector::answerer(TimeNs now) const {
  if (unheard(now) < kAnswerLate) return Answerer::process;
  return silence(now) < kAnswerLate ? Answerer::kernel : Answerer::nobody;
}

TimeNs FailureDetector::reconnect_interval(TimeNs now) const {
  const auto usable =
      std::ranges::count_if(paths_, [](const PathEnd* path) { return path->carries(); });
  const TimeNs least = usable > 1 ? kReconnectMin : limits::kLastPathPatience;
  return std::max(least, std::min(unheard(now) / 2, kReconnectMax));
}

// Notes which control streams the peer's kernel has acknowledged. The kernel of a stopped peer
// acknowledges the control frames that reach it.
void FailureDetector::note_acknowledged(TimeNs now) {
  if (pinged_at_ == 0 || now < next_kernel_look_) return;
  next_kernel_look_ = now + kReconnectMin / 4;
  for (PathEnd* path : paths_) {
    const TimeNs unanswered = path->control_unanswered();
    TimeNs& acknowledged_at = path->health.acknowledged_at;
    if (unanswered != kNever) acknowledged_at = std::max(acknowledged_at, now - unanswered);
  }
}

// Opens new connections to a silent peer. When the peer's kernel owes an answer, the peer is cut
// off, or its connections are dead and no kernel knows them. A new connection shows which, and is
// usable at once. The detector opens none to a peer that is merely stopped: a kernel holds only so
// many connections that no process accepts.
void FailureDetector::check_silence(TimeNs now) {
  note_acknowledged(now);
  const bool connected = heard_at_ != 0 && std::ranges::any_of(paths_, [](const PathEnd* path) {
                           return path->state.connected();
                         });
  if (connected && now - heard_at_ > kSilentHeartbeats * heartbeat_) {
    ping_peer(nullptr, now);
  }
  const TimeNs interval = reconnect_interval(now);
  if (silence(now) < interval || mutated(Mutant::tune_ask_kernel)) return;
  for (PathEnd* path : paths_) {
    if (path->state.connected()) actions_.reconnect(*path, interval, now);
  }
}

// Returns when to look at the path's oldest chunk. That chunk becomes overdue sooner when the bytes
// of other links leave its NIC, which is no event of this link.
TimeNs FailureDetector::data_due_at(const PathEnd& path, TimeNs now) {
  const TimeNs overdue = data_overdue_at(path);
  if (overdue <= now || overdue == kNever) return overdue;
  const TimeNs expected = path.model.outstanding().front().expected_at;
  return expected > now ? expected : std::min(overdue, now + kSharedNicInterval);
}

TimeNs FailureDetector::next_timeout(TimeNs now) const {
  TimeNs next = pinged_at_ == 0 ? kNever : now + kUnheardInterval;
  for (const PathEnd* path : paths_) {
    const PathPhase phase = path->state.phase();
    if (path->paused() || (phase != PathPhase::up && phase != PathPhase::suspect)) continue;
    const TimeNs overdue = std::min(data_due_at(*path, now), control_overdue_at(*path));
    next = std::min(next, std::max(overdue, next_ping_));
    if (phase == PathPhase::suspect) next = std::min(next, now + kSuspectInterval);
  }
  return next;
}

TimeNs FailureDetector::kernel_answer_bound(const PathEnd& path) {
  return limits::kPathSilentAfter + 4 * path.health.round_trip;
}

void FailureDetector::check_invariants() const {
  R2CCL_CHECK(ping_number_ != 0);
  R2CCL_CHECK(ping_wait_ <= 4 * kPingInterval);
  R2CCL_CHECK(last_pinged_at_ <= next_ping_);
  R2CCL_CHECK(witness_cursor_ <= paths_.size());
  R2CCL_CHECK(evidence_at_ <= heard_at_ || heard_at_ == 0);
  for (const PathEnd* path : paths_) {
    const auto& pings = path->health.pings;
    R2CCL_CHECK(pings.size() <= kPingsMax);
    R2CCL_CHECK(std::ranges::is_sorted(pings, {}, &PathHealth::Ping::sent_at));
    R2CCL_CHECK(path->health.round_trip >= 0 && path->health.round_trip <= kRoundTripMax);
  }
}

}  // namespace r2ccl
