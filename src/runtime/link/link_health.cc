// Judging paths: late, suspect, down, back.
//
// A path is suspected when it is late by its own standards AND the peer has meanwhile acted on
// something that was sent after the late thing should have arrived. So a peer that was descheduled,
// or this process being late itself, suspects nobody: everything is late together then.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"
#include "runtime/link/link.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStop = 1 * kSecond;
constexpr TimeNs kAskInterval = 5 * kMillisecond;
constexpr TimeNs kAskIntervalMax = 200 * kMillisecond;
// Between the beginnings of two probes of one path: where they fail at once, it must not spin.
constexpr TimeNs kProbeInterval = 20 * kMillisecond;
constexpr TimeNs kLaneSlack = 10 * kMillisecond;
constexpr TimeNs kLaneSlackUnknown = 200 * kMillisecond;
// How long a suspect path may stay one without a sign of life, the peer being alive elsewhere.
constexpr TimeNs kSilentAfter = 100 * kMillisecond;
constexpr TimeNs kStalledAfter = 400 * kMillisecond;
// A connection whose packets got lost for so long waits longer still, and a new one need not.
constexpr TimeNs kMuteAfter = 300 * kMillisecond;
// The last usable path is not suspected; it is given up only after this.
constexpr TimeNs kLastPathPatience = 500 * kMillisecond;
// A peer that answers nothing may be stopped: then its kernel answers. It is asked soon, because
// new connections work as soon as the network does, while TCP waits ever longer; later less often.
constexpr TimeNs kKernelAskMin = 100 * kMillisecond;
constexpr TimeNs kKernelAskMax = 250 * kMillisecond;
// A kernel answers at once, behind what the NICs have to send.
constexpr TimeNs kKernelAnswer = 60 * kMillisecond;
constexpr TimeNs kShortOutage = 1 * kSecond;
constexpr uint32_t kLongDial = 4;  // one in so many waits as long as it may, on each path another
// A lane that lives says so at every heartbeat.
constexpr TimeNs kSilentHeartbeats = 3;
constexpr TimeNs kProvingMax = 1 * kSecond;
// A host that nothing reaches after its goodbye has left; less than what finalize waits.
constexpr TimeNs kLeftAfter = 5 * kSecond;

}  // namespace

void Link::health(TimeNs at, TimeNs idle_ns) {
  if (idle_ns > limits::kExcusedGap) {
    excuse(idle_ns);
    const auto shift = [&](TimeNs& since) {
      if (since != 0) since = std::min(since + idle_ns, at);
    };
    shift(asked_at_);
    // Small pauses, of which a busy rank has many, must not put off the cut-off for ever.
    if (idle_ns > kStop) shift(all_down_since_);
    if (idle_ns > kStop) shift(no_data_since_);
  }
  prove_paths(at);
  note_data_paths(at);
  if (settings_.monitor) {
    for (Path* path : paths()) {
      if (path->paused()) continue;
      if (path->state.phase() == PathPhase::up) judge(*path, at);
      if (path->state.phase() == PathPhase::suspect) judge_suspect(*path, at);
    }
    ask_silent_kernel(at);
  }
  dial(at);
  check_gone(at);
}

void Link::act_on_breaks(TimeNs at) {
  for (Path* path : paths()) {
    if (path->broken) fail_path(*path, *path->broken, path->peer_cause, path->broken_why, at);
  }
  const bool any =
      std::ranges::any_of(paths(), [](const Path* path) { return path->state.connected(); });
  if (any) all_down_since_ = 0;
}

void Link::prove_paths(TimeNs at) {
  for (Path* path : paths()) {
    if (path->state.phase() != PathPhase::proving || path->broken) continue;
    const bool proved =
        path->spec.lane_only || (path->probe_received() && path->model.frames_sent() > 0 &&
                                 path->model.outstanding().empty());
    if (proved) {
      path->state.prove(at);
      if (path->history.downs > 0) ++path->history.returns;
      path->history.attempt.clear();
      changed();
      report_change(*path, PathPhase::proving, at, {});
    } else if (at - path->state.since() > kProvingMax) {
      fail_path(*path, DownCause::silent, DownCause::none, "full-size frames do not pass", at);
    } else if (path->model.frames_sent() == 0 && path->can_start_frame()) {
      send_probe(*path, at);
    }
  }
}

TimeNs Link::lane_overdue_at(const Path& path) {
  const TimeNs since = path.health.missed_since();
  if (since == kNever) return kNever;
  const TimeNs known = path.health.round_trip;
  return since + (known == 0 ? kLaneSlackUnknown : 2 * known + kLaneSlack);
}

// What other links send later shares the NIC with what this one has sent before.
TimeNs Link::overdue_at(const Path& path) const {
  if (path.model.outstanding().empty() || path.abandoned()) return kNever;
  const Transmission& oldest = path.model.outstanding().front();
  const NicQueue& queue = host_.queue(path.spec.local_nic);
  const uint64_t others = queue.outstanding() - path.model.bytes_outstanding();
  const TimeNs shared = queue.time_of(others + oldest.ahead);
  return oldest.expected_at + std::max<TimeNs>(shared - oldest.wire_time, 0);
}

// Also a path at rest stands in for it: it is used as soon as no other is up.
bool Link::is_last(const Path& path) const {
  return std::ranges::none_of(paths(), [&path](const Path* other) {
    return other != &path && !other->spec.lane_only && other->state.usable();
  });
}

void Link::judge(Path& path, TimeNs at) {
  const TimeNs overdue = overdue_at(path);
  const bool data_late = overdue <= at;
  const bool lane_late = lane_overdue_at(path) <= at;
  if ((!data_late && !lane_late) || mutated(Mutant::never_late)) return;
  const bool data_proof = data_late && evidence_at_ >= overdue - path.model.slack();
  const TimeNs asked = path.health.missed_since();
  const bool lane_proof = lane_late && evidence_at_ >= asked + kLaneSlack / 2;
  ask(at, &path);
  const bool proof = data_proof || lane_proof || mutated(Mutant::accuse_sleepers);
  if (!proof || path.spec.lane_only) return;
  if (is_last(path)) {
    const TimeNs since = data_proof ? overdue : asked;
    if (evidence_at_ < since + kLastPathPatience) return;
    return fail_path(path, DownCause::silent, DownCause::none, "the last path is silent", at);
  }
  path.state.suspect(at);
  ++path.history.suspicions;
  R2CCL_LOG(info, "path %s to rank %d is suspect: %s late by %.1f ms", path.spec.local_name.c_str(),
            peer_.value(), data_proof ? "data" : "lane",
            static_cast<double>(at - (data_proof ? overdue : asked)) / 1e6);
  note_hit(path);
  mirror_outstanding(path);
  overdraw_until_ = at + limits::kOverdrawTime;
  changed();
  report_change(path, PathPhase::up, at, {});
}

// Its connection waits for an answer to what was lost.
bool Link::is_mute(const Path& path, TimeNs at) {
  if (path.model.outstanding().empty()) return false;
  const TimeNs unanswered = path.data_unanswered();
  if (unanswered == kNever) return false;
  return std::min(unanswered, at - path.model.outstanding().front().sent_at) > kMuteAfter;
}

void Link::judge_suspect(Path& path, TimeNs at) {
  if (mutated(Mutant::suspect_for_ever)) return;
  const TimeNs since = path.state.since();
  const bool data_late = overdue_at(path) <= at;
  const bool lane_answers = path.health.answered_at > since;
  if (!data_late && (lane_answers || lane_overdue_at(path) > at)) {
    path.state.clear(at);
    changed();
    return report_change(path, PathPhase::suspect, at, {});
  }
  const bool kernel_answers = path.health.kernel_answered_at >= since;
  if (!kernel_answers) probe_kernel(path, at);
  // Evidence counts from this time on, so an idle peer is not asked before.
  const TimeNs asks_from = since + kSilentAfter / 2;
  const bool unasked = path.health.asks.empty() && !lane_answers;
  // While chunks wait, the state that comes with each answer may end the suspicion.
  const bool waits = !path.model.outstanding().empty();
  if (waits || unasked || (at > asks_from && evidence_at_ <= asks_from)) ask(at, &path);
  const bool peer_alive = evidence_at_ > asks_from || mutated(Mutant::accuse_sleepers);
  if (!peer_alive || at - since < kSilentAfter) return;
  // Slow is not dead: data that still trickles is waited for.
  const bool trickles = path.model.last_delivery_at() > since;
  const bool sign_of_life = kernel_answers || lane_answers || trickles;
  const TimeNs patience = is_mute(path, at) ? kSilentAfter : kStalledAfter;
  if (sign_of_life && at - std::max(since, path.model.last_delivery_at()) < patience) return;
  fail_path(path, sign_of_life ? DownCause::stalled : DownCause::silent, DownCause::none,
            sign_of_life ? "no progress, though the peer's kernel answers" : "nothing came through",
            at);
}

// A short connect that the peer's kernel must answer even when its process is stopped.
void Link::probe_kernel(const Path& path, TimeNs at) {
  PathDialer& dialer = *slots_[index_of(path)].dialer;
  if (dialer.busy() || at - dialer.started_at() < kProbeInterval) return;
  DialRequest probe;
  probe.probe_only = true;
  probe.path = path.spec.id;
  probe.remote = path.spec.remote;
  probe.options.device = path.spec.device;
  probe.options.source = path.spec.source;
  // Later answers say nothing more, and a new connection may be due on this path.
  const TimeNs in_time = kSilentAfter + 4 * path.health.round_trip;
  probe.answered_within = std::min(in_time, probe.answered_within);
  dialer.start(std::move(probe), {}, at);
}

// Asks whether the peer runs. The answer gives the comparison for the path in doubt, and the whole
// current state. Where one idle path is in doubt, one lane that answers tells as much as all of
// them. All are asked when the last question had no answer, when more paths are in doubt, and when
// chunks wait, which the state may concern.
void Link::ask(TimeNs at, Path* in_doubt) {
  if (at < next_ask_) return;
  const bool fresh = at - next_ask_ > kAskIntervalMax;
  ask_wait_ = fresh ? kAskInterval : std::min(2 * ask_wait_, 4 * kAskInterval);
  next_ask_ = at + std::max(ask_wait_, spacing(at));
  if (asked_at_ == 0) asked_at_ = at;
  const TimeNs last_ask_at = std::exchange(last_ask_at_, at);
  const bool chunks_wait = in_doubt != nullptr && !in_doubt->model.outstanding().empty();
  const bool answered = fresh || evidence_at_ >= last_ask_at;
  const bool one_will_do = answered && !chunks_wait && !others_in_doubt(in_doubt, at);
  Path* witness = one_will_do ? choose_witness(in_doubt, at) : nullptr;
  if (witness != nullptr) {
    send_state(*witness, at, Question::urgent);
    // A question that is under way on an idle lane arrives no sooner when another one follows.
    const bool owes = in_doubt == nullptr || !in_doubt->health.asks.empty();
    if (!owes && in_doubt->lane_ready()) send_state(*in_doubt, at, Question::urgent);
    return;
  }
  for (Path* path : paths()) {
    if (path->lane_ready() && !path->broken) send_state(*path, at, Question::urgent);
  }
}

bool Link::others_in_doubt(const Path* in_doubt, TimeNs at) const {
  return std::ranges::any_of(paths(), [&](const Path* path) {
    return path != in_doubt && path->state.connected() &&
           (path->state.phase() == PathPhase::suspect || lane_overdue_at(*path) <= at);
  });
}

// The next lane that can be expected to answer: prompt, and not itself in doubt.
Path* Link::choose_witness(const Path* in_doubt, TimeNs at) {
  const TimeNs prompt = prompt_round_trip(at);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const size_t index = (witness_cursor_ + i) % slots_.size();
    Path& path = *slots_[index].path;
    if (&path == in_doubt || !good_lane(path) || path.health.round_trip_at(at) > prompt) continue;
    witness_cursor_ = index + 1;
    return &path;
  }
  return nullptr;
}

bool Link::ping(NicId local_nic) {
  const TimeNs at = now();
  bool shares = false;
  for (Path* path : paths()) {
    if (path->spec.local_nic != local_nic || !good_lane(*path)) continue;
    shares = true;
    if (path->health.asks.empty()) send_state(*path, at, Question::urgent);
  }
  return shares;
}

void Link::report_change(const Path& path, PathPhase from, TimeNs at, PathEvent event) {
  event.peer = peer_;
  event.path = path.spec.id;
  event.local_nic = path.spec.local_nic;
  event.remote_nic = path.spec.remote_nic;
  event.from = from;
  event.to = path.state.phase();
  event.at = at;
  state_.mark_urgent();
  host_.on_path_event(event);
}

// When the peer began to owe an answer on this path. An idle path has sent questions only, and one
// that was not asked shares the question to the peer. kNever: the peer owes nothing.
TimeNs Link::unanswered_since(const Path& path) const {
  if (!path.model.outstanding().empty()) return path.model.outstanding().front().sent_at;
  if (!path.health.asks.empty()) return path.health.asks.front().sent_at;
  return asked_at_ == 0 ? kNever : asked_at_;
}

void Link::fail_path(Path& path, DownCause cause, DownCause peer_cause, const std::string& why,
                     TimeNs at) {
  const PathPhase from = path.state.phase();
  const bool was_up = from == PathPhase::up || from == PathPhase::suspect;
  // Whoever took its NIC out of service may pull the cable: that is no failure of the path.
  const bool planned = path.resting && path.model.outstanding().empty();
  PathEvent event;
  event.planned = planned;
  event.cause = cause;
  event.peer_cause = peer_cause;
  event.why = why;
  if (was_up) event.up_ns = at - path.state.up_since();
  if (!path.model.outstanding().empty()) {
    const TimeNs sent_at = path.model.outstanding().front().sent_at;
    event.detected_ns = at - sent_at;
  }
  event.aftermath = cause == DownCause::stalled && unanswered_since(path) < silence_ended_at_;
  const size_t index = index_of(path);
  slots_[index].dialer->cancel();
  death_evidence_.on_failed(index, std::exchange(path.closed_by_kernel, false), at);
  if (from == PathPhase::up) note_hit(path);
  // The peer must not take the aftermath for a stall of the path either.
  const DownCause told = event.aftermath ? DownCause::connection_lost : cause;
  queue_lost(detach(path, goodbye_received_ ? DownCause::closing : told, at), event.replayed_bytes);
  path.returns.on_down(at, was_up && !planned);
  Path::History& history = path.history;
  if (was_up && !planned) {
    ++history.downs;
    history.down_at = at;
    history.cause = cause;
    history.peer_cause = peer_cause;
    history.why = why;
    history.attempt.clear();
  } else {
    history.attempt = why;
  }
  if (goodbye_received_) path.returns.on_news(at);  // likely the peer's leaving: see whether it has
  overdraw_until_ = at + limits::kOverdrawTime;
  changed();
  const bool any = std::ranges::any_of(paths(), [](const Path* p) { return p->state.connected(); });
  if (!any && all_down_since_ == 0) {
    all_down_since_ = at;
    asked_at_ = 0;
    death_evidence_.on_all_down(at);
    for (Path* each : paths()) each->returns.on_news(at);
  }
  if (!goodbye_received_) report_change(path, from, at, std::move(event));
}

void Link::dial(TimeNs at) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Path& path = *slots_[i].path;
    PathDialer& dialer = *slots_[i].dialer;
    dialer.progress(at);
    if (path.state.connected() || dialer.busy() || at < path.returns.next_attempt()) continue;
    // The lower rank opens paths. The higher one only calls, when all is lost or the peer may have
    // left: that shows whether the peer lives, and tells it the way back.
    if (!opens_paths() && all_down_since_ == 0 && !goodbye_received_) continue;
    if (mutated(Mutant::no_return) && path.history.downs > 0) continue;
    path.returns.on_attempt(at);
    open(path, at);
  }
}

// So that many attempts find the moment at which the network is back; but after an outage that was
// not short the way may be a longer one.
TimeNs Link::kernel_answer_time(Path& path, TimeNs at) {
  const TimeNs known = path.health.round_trip;
  const TimeNs away_since = path.state.connected() ? heard_at_ : path.history.down_at;
  const bool turn = (path.spec.id.value() + path.dials++) % kLongDial == 0;
  const bool long_one = turn && at - away_since > kShortOutage;
  if (known == 0 || long_one) return DialRequest{}.answered_within;
  return std::min(kKernelAnswer + 4 * known, DialRequest{}.answered_within);
}

void Link::open(Path& path, TimeNs at) {
  DialRequest request;
  request.path = path.spec.id;
  request.lane_only = path.spec.lane_only;
  request.local_nic = path.spec.local_nic;
  request.remote_nic = path.spec.remote_nic;
  // The peer opens paths, but may not know where this NIC is by now.
  if (!opens_paths() && !path.spec.lane_only) {
    request.call = host_.address_notice(path.spec.local_nic);
  }
  request.probe_only = !opens_paths() && request.call.empty();
  request.self = self_;
  request.peer = peer_;
  request.remote = path.spec.remote;
  request.options.device = path.spec.device;
  request.options.source = path.spec.source;
  request.last_used = path.state.incarnation();
  request.answered_within = kernel_answer_time(path, at);
  slots_[index_of(path)].dialer->start(std::move(request), {host_.nonce(), host_.nonce()}, at);
}

void Link::on_dialed(PathDialer& dialer, DialedPath dialed) {
  const TimeNs at = now();
  Path* path = find(dialer.request().path);
  touch();
  death_evidence_.on_alive();
  if (!dialed.lane) {
    path->health.kernel_answered_at = at;
    return;
  }
  if (path->state.connected()) {
    if (asked_at_ == 0) return;  // it has been heard meanwhile
    end_silence(at);
    fail_path(*path, DownCause::stalled, DownCause::none,
              "silent for long, while a new connection is answered", at);
  }
  if (Status attached =
          path->attach(host_.reactor(), std::move(dialed.data), std::move(*dialed.lane), at);
      !attached.ok()) {
    R2CCL_LOG(info, "path %s to rank %d: %s", path->spec.local_name.c_str(), peer_.value(),
              attached.message().c_str());
    if (path->state.connected()) path->broken = DownCause::connection_lost;
  }
  changed();
}

void Link::on_dial_failed(PathDialer& dialer, const DialFailure& failure) {
  touch();
  last_dial_failure_ = failure.why;
  if (failure.error == EMFILE) {
    R2CCL_LOG(warn, "cannot dial rank %d: %s", peer_.value(), failure.why.c_str());
  } else {
    R2CCL_LOG(trace, "dial to rank %d failed: %s", peer_.value(), failure.why.c_str());
  }
  Path& path = *find(dialer.request().path);
  if (failure.connected) path.health.kernel_answered_at = now();
  if (!dialer.request().probe_only && !path.state.connected()) path.history.attempt = failure.why;
  if ((all_down_since_ == 0 && !goodbye_received_) || peer_end_) return;
  if (failure.connected) death_evidence_.on_alive();
  if (failure.error == ECONNREFUSED) death_evidence_.on_refused(index_of(path), now());
}

// After its goodbye the peer waits for ours, so neither that nor closed connections say that it has
// left: a path may have failed, and one that lies in a hole does not tell that it was closed.
void Link::note_data_paths(TimeNs at) {
  const auto is_data = [](const Path* path) { return !path->spec.lane_only; };
  const bool carries = std::ranges::any_of(paths(), [&](const Path* path) {
    const PathPhase phase = path->state.phase();
    return is_data(path) && (phase == PathPhase::up || phase == PathPhase::suspect);
  });
  const bool carried = std::ranges::any_of(
      paths(), [&](const Path* path) { return is_data(path) && path->history.downs > 0; });
  if (carries || !carried) {
    no_data_since_ = 0;
  } else if (no_data_since_ == 0) {
    no_data_since_ = at;
  }
}

// For how long nothing has come from the peer's host, which was asked: not even from its kernel.
TimeNs Link::silence(TimeNs at) const {
  if (asked_at_ == 0) return 0;
  TimeNs heard_at = asked_at_;
  for (Path* path : paths()) {
    heard_at = std::max({heard_at, path->health.kernel_answered_at, path->health.acknowledged_at});
  }
  return at - heard_at;
}

TimeNs Link::kernel_ask_interval(TimeNs at) const {
  const TimeNs least = usable_paths() > 1 ? kKernelAskMin : kLastPathPatience;
  return std::max(least, std::min(unheard(at) / 2, kKernelAskMax));
}

// A stopped peer's kernel acknowledges what is said to it.
void Link::note_acknowledged(TimeNs at) {
  if (asked_at_ == 0 || at < next_kernel_look_) return;
  next_kernel_look_ = at + kKernelAskMin / 4;
  for (Path* path : paths()) {
    const TimeNs unanswered = path->lane_unanswered();
    TimeNs& acknowledged_at = path->health.acknowledged_at;
    if (unanswered != kNever) acknowledged_at = std::max(acknowledged_at, at - unanswered);
  }
}

// A peer whose kernel owes an answer is cut off, or its connections are dead and no kernel knows
// it. A new connection tells, and is of use at once. Never to one that is merely stopped: a kernel
// holds only so many connections that nobody takes.
void Link::ask_silent_kernel(TimeNs at) {
  note_acknowledged(at);
  const bool connected = heard_at_ != 0 && all_down_since_ == 0;
  if (connected && at - heard_at_ > kSilentHeartbeats * limits::kHeartbeatInterval)
    ask(at, nullptr);
  const TimeNs interval = kernel_ask_interval(at);
  if (silence(at) < interval) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Path& path = *slots_[i].path;
    const bool due = at - slots_[i].dialer->started_at() >= interval;
    if (!due || slots_[i].dialer->busy() || !path.state.connected()) continue;
    const bool anew = opens_paths() && !mutated(Mutant::dead_connections);
    anew ? open(path, at) : probe_kernel(path, at);
  }
}

void Link::check_gone(TimeNs at) {
  if (peer_end_) return;
  const TimeNs silent = all_down_since_ == 0 ? 0 : at - all_down_since_;
  if (goodbye_received_ && (death_evidence_.refusals() > 0 || silent >= kLeftAfter)) {
    return end_peer(PeerEnd::goodbye, "the peer left in order");
  }
  if (death_evidence_.proves_death()) {
    return end_peer(PeerEnd::dead, "its kernel refuses new connections");
  }
  const TimeNs lost = no_data_since_ == 0 ? 0 : at - no_data_since_;
  if (std::max({silent, lost, silence(at)}) >= settings_.cutoff) {
    end_peer(PeerEnd::cut_off,
             "no path has reached it for " + std::to_string(settings_.cutoff / kSecond) + " s");
  }
}

Result<AcceptDecision> Link::on_hello(const ConnectionIdentity& identity, Incarnation theirs) {
  Path* path = find(identity.path);
  if (path == nullptr) return Status(Code::remote, "a path that this rank does not have");
  if (identity.from_nic != path->spec.remote_nic || identity.to_nic != path->spec.local_nic) {
    return Status(Code::remote, "a path between other NICs");
  }
  if (identity.kind == ConnectionKind::call)
    return AcceptDecision{path->state.incarnation(), {}, {}};
  if (identity.from > identity.to) {
    return Status(Code::remote, "the lower rank opens the paths of a link");
  }
  const size_t index = index_of(*path);
  AcceptDecision decision;
  decision.last_used = path->state.incarnation();
  const auto& pending = slots_[index].pending_data;
  if (identity.kind == ConnectionKind::data) {
    if (path->spec.lane_only) return Status(Code::remote, "a data connection on a lane-only path");
    if (pending) decision.last_used = std::max(decision.last_used, pending->session.incarnation);
  } else if (!path->spec.lane_only) {
    if (!pending || pending->session.incarnation != theirs) {
      return Status(Code::remote, "a lane without its data connection");
    }
    decision.join = theirs;
  }
  return decision;
}

void Link::adopt(EstablishedConnection established) {
  const TimeNs at = now();
  Path* path = find(established.session.identity.path);
  if (path == nullptr || peer_end_) return;
  const size_t index = index_of(*path);
  auto& pending = slots_[index].pending_data;
  touch();
  if (established.session.identity.kind == ConnectionKind::data) {
    pending = std::move(established);
    return;
  }
  const bool joins = pending && pending->session.incarnation == established.session.incarnation;
  if (joins == path->spec.lane_only) return;  // a lane whose data connection was replaced meanwhile
  // The peer dials only what it has lost: whatever is still open here is dead on its side.
  if (path->state.connected()) {
    fail_path(*path, DownCause::connection_lost, DownCause::none, "the peer opened it anew", at);
  }
  std::optional<EstablishedConnection> data = std::exchange(pending, std::nullopt);
  if (Status attached = path->attach(host_.reactor(), std::move(data), std::move(established), at);
      !attached.ok()) {
    R2CCL_LOG(info, "path %s to rank %d: %s", path->spec.local_name.c_str(), peer_.value(),
              attached.message().c_str());
    if (path->state.connected()) path->broken = DownCause::connection_lost;
  }
  changed();
}

void Link::on_nic_change(NicId nic, bool usable, DownCause cause) {
  const TimeNs at = now();
  for (Path* path : paths()) {
    if (path->spec.local_nic != nic) continue;
    touch();
    if (usable) {
      path->returns.on_news(at);
    } else if (path->state.connected()) {
      fail_path(*path, cause, DownCause::none, path->spec.local_name + " " + to_string(cause), at);
    }
  }
}

}  // namespace r2ccl
