// The connections of a link's paths: this end dials, or adopts the connections that the peer
// dialed.
#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"
#include "protocol/path/heartbeats.h"
#include "runtime/link/link_paths.h"

namespace r2ccl {
namespace {

// The interval between the beginnings of two kernel probes of one path: a probe that fails at once
// must not spin.
constexpr TimeNs kProbeInterval = 20 * kMillisecond;
// A kernel answers a SYN immediately; only the queues of the NICs delay it.
constexpr TimeNs kKernelAnswer = 60 * kMillisecond;
constexpr TimeNs kShortOutage = 1 * kSecond;
// So many attempts to open a new path take some 0.1 s.
constexpr uint32_t kTriedInVain = 4;
// The interval between the beginnings of two attempts to join a data connection.
constexpr TimeNs kJoinInterval = 100 * kMillisecond;
constexpr uint32_t kLongDial = 4;  // one dial in so many has the full bound, each path another

}  // namespace

LinkPaths::LinkPaths(LinkHost& host, LinkEnd end, const std::vector<PathSpec>& specs,
                     const LinkSettings& settings, Path::Owner& owner, Events& events)
    : host_(host),
      end_(end),
      settings_(settings),
      events_(events),
      slots_([&] {
        std::vector<PathSlot> slots;
        for (const PathSpec& spec : specs) {
          PathSlot slot;
          slot.path = std::make_unique<Path>(owner, slots.size(), spec, host.queue(spec.local_nic),
                                             host, settings.damping);
          slot.dialer = std::make_unique<PathDialer>(static_cast<PathDialer::Owner&>(*this),
                                                     host.reactor(), host.transport(), host.run());
          slots.push_back(std::move(slot));
        }
        return slots;
      }()),
      has_relay_(!slots_.empty() && slots_.back().path->spec.relay),
      in_use_(slots_.size() - (has_relay_ ? 1 : 0)),
      shown_(in_use_),
      detector_(*this, path_ends(), Heartbeats::idle_interval(settings.links)),
      scheduler_(path_ends()),
      liveness_(specs.size(), settings.cutoff) {
  wants_data_ = mutated(Mutant::join_all);
}

// Ends the attempts before it closes the connections that carry data.
LinkPaths::~LinkPaths() {
  // None of them is admitted when another one ends.
  for (PathSlot& slot : slots_) {
    if (slot.dialer->waits()) slot.dialer->cancel();
  }
  for (PathSlot& slot : slots_) slot.pending_data.reset();
  for (PathSlot& slot : slots_) slot.dialer.reset();
  forget_outstanding();
}

// The NICs' accounts outlive the link: other links use them.
void LinkPaths::forget_outstanding() noexcept {
  for (Path* path : all()) {
    host_.queue(path->nic()).on_lost(path->model.bytes_outstanding());
    path->model.reset();
  }
}

void LinkPaths::dial(TimeNs now) {
  for (PathSlot& slot : std::span(slots_).first(in_use_)) {
    Path& path = *slot.path;
    slot.dialer->progress(now);
    if (!settled_ && path.state.connected()) join(slot, now);
    if (path.state.connected() || slot.dialer->busy() || now < path.backoff.next_attempt()) {
      continue;
    }
    if (!may_dial(slot)) continue;
    if (mutated(Mutant::no_return) && path.history.downs > 0) continue;
    if (!aim(path, now)) continue;
    if (!admitted(slot, now)) continue;
    path.backoff.on_attempt(now);
    open(slot, now);
  }
}

// The lower rank opens paths. The higher rank only calls, when no path works, the peer may
// have left, or the path's NIC is back. A call shows whether the peer lives, and gives it this
// rank's address: it need not wait for the turn of its next attempt, nor its kernel for that of its
// next search for the NIC (RFC 826). No call needs a relay: the peer seeks one itself.
bool LinkPaths::may_dial(const PathSlot& slot) const {
  if (opens()) return true;
  if (slot.path->spec.relay) return false;
  return liveness_.seeks() || events_.peer_said_goodbye() || slot.call_due;
}

// A container engine gives every host the same address, also while the job runs. Only its own
// processes would answer this host there.
bool LinkPaths::leads_here(const PathSpec& spec, const Address& remote) const {
  return !spec.one_network && host_.is_own(remote);
}

// Chooses the addresses of the path's next attempt. Returns false when each leads back to this
// host: then the attempt has failed.
bool LinkPaths::aim(Path& path, TimeNs now) {
  PathSpec& spec = path.spec;
  if (spec.relay) return true;
  const auto here = [&](const Address& remote) { return leads_here(spec, remote); };
  if (spec.addresses.is_fixed()) {
    if (!here(spec.remote.address)) return true;
  } else if (const auto pair = spec.addresses.next(here)) {
    spec.source = pair->source;
    spec.remote.address = pair->remote;
    return true;
  }
  path.note_attempt(spec.addresses.is_fixed() || !spec.addresses.pairs().empty()
                        ? to_string(spec.remote.address) + " is an address of this host too"
                        : "no two addresses of the NICs are of one family");
  path.backoff.on_attempt(now);
  return false;
}

// Returns whether an answer of a kernel to this attempt says something about the peer.
bool LinkPaths::is_answer_of_peer(const Path& path, const DialRequest& request) const {
  const Address& remote = request.remote.address;
  if (path.spec.is_shm()) return path.state.incarnation() != Incarnation();  // its name is random
  return path.spec.addresses.is_proved(remote) && !leads_here(path.spec, remote);
}

bool LinkPaths::is_first_dial(const Path& path) const {
  return opens() && !path.spec.relay && path.state.up_since() == 0;
}

// Returns whether the path is to be opened now. If only its gate is in the way, it waits there.
bool LinkPaths::admitted(PathSlot& slot, TimeNs now) {
  const Path& path = *slot.path;
  if (!may_open(path, now)) {
    slot.dialer->cancel();  // others wait for its place
    return false;
  }
  return !is_first_dial(path) ||
         slot.dialer->enter(host_.dial_gate(path.spec.local_nic, path.spec.is_shm()));
}

// Returns whether this end may dial the path's data connection now. The first pong shows that the
// peer has the control stream, so the connection finds there what it joins. While the peer owes an
// answer it may be stopped, and would answer no handshake. A path on standby carries no chunks.
bool LinkPaths::may_join(const PathSlot& slot) const {
  const Path& path = *slot.path;
  return wants_data_ && opens() && path.lacks_data() && !path.broken && !path.standby &&
         path.health.round_trip > 0 && !detector_.pinged() &&
         !leads_here(path.spec, path.spec.remote.address);
}

// The ping of the attempt shows whether the peer runs meanwhile.
void LinkPaths::join(PathSlot& slot, TimeNs now) {
  Path& path = *slot.path;
  if (!may_join(slot)) return slot.dialer->leave_gate();  // others wait for its place
  if (slot.dialer->busy() || now < slot.next_join) return;
  if (!slot.dialer->enter(host_.dial_gate(path.spec.local_nic, path.spec.is_shm()))) return;
  slot.next_join = now + kJoinInterval;
  DialRequest request = request_to(path);
  request.opens = DialOpens::data;
  if (path.spec.relay) go_through(relay_route_, request);
  request.shaken_within = limits::kHandshakeAgeMax;
  slot.dialer->start(std::move(request), {host_.nonce(), host_.nonce()}, now);
  if (path.health.pings.empty() && path.control_writable()) events_.send_ping(path, now);
}

// Returns whether the path is needed now. A fallback path is not, before the others have
// failed: an idle one would cost descriptors and heartbeats. A path that was never up may only be
// early.
bool LinkPaths::may_open(const Path& path, TimeNs now) const {
  if (path.spec.relay && is_cut_off(now)) return true;
  return !path.spec.fallback || std::ranges::all_of(all(), [](const Path* other) {
    const bool has_failed = other->history.downs > 0 || other->history.attempts >= kTriedInVain;
    return other->spec.fallback || other->control_only || (!other->state.connected() && has_failed);
  });
}

// With a short bound, many attempts find the moment at which the network returns. After a long
// outage the route may be longer, so some attempts get the full bound.
TimeNs LinkPaths::connect_bound(Path& path, TimeNs now) {
  const TimeNs known = path.health.round_trip;
  const TimeNs away_since = path.state.connected() ? detector_.heard_at() : path.history.down_at;
  const bool turn = (path.spec.id.value() + path.dials++) % kLongDial == 0;
  const bool long_one = turn && now - away_since > kShortOutage;
  if (known == 0 || long_one) return DialRequest{}.answered_within;
  return std::min(kKernelAnswer + 4 * known, DialRequest{}.answered_within);
}

DialRequest LinkPaths::request_to(const Path& path) const {
  DialRequest request;
  request.path = path.spec.id;
  request.local_nic = path.spec.local_nic;
  request.remote_nic = path.spec.remote_nic;
  request.self = end_.self;
  request.peer = end_.peer;
  request.remote = path.spec.remote;
  request.options.device = path.spec.device;
  request.options.source = path.spec.source;
  request.last_used = path.state.incarnation();
  return request;
}

void LinkPaths::open(PathSlot& slot, TimeNs now) {
  Path& path = *slot.path;
  DialRequest request = request_to(path);
  const bool data = wants_data_ && !path.spec.control_only;
  request.opens = data ? DialOpens::both : DialOpens::control;
  // The peer opens paths, but may not know the present address of this NIC.
  if (!opens() && !path.spec.control_only) request.call = host_.address_notice(path.spec.local_nic);
  request.probe_only = !opens() && request.call.empty();
  request.answered_within = connect_bound(path, now);
  // The processes of all ranks start at once, and may share few processors.
  if (is_first_dial(path)) request.shaken_within = limits::kHandshakeAgeMax;
  if (path.spec.relay) {
    const auto route = choose_relay(path);
    if (!route) return;
    go_through(*route, request);
  }
  slot.dialer->start(std::move(request), {host_.nonce(), host_.nonce()}, now);
}

void LinkPaths::probe_kernel(PathEnd& end, TimeNs now) {
  const Path& path = path_of(end);
  PathDialer& dialer = *slots_[end.index].dialer;
  if (path.spec.relay) return;  // no kernel at the other end of its connections is the peer's
  if (leads_here(path.spec, path.spec.remote.address)) return;
  if (dialer.joining()) dialer.cancel();  // the state of the path comes first
  if (dialer.busy() || now - dialer.started_at() < kProbeInterval) return;
  DialRequest probe;
  probe.probe_only = true;
  probe.path = path.spec.id;
  probe.remote = path.spec.remote;
  probe.options.device = path.spec.device;
  probe.options.source = path.spec.source;
  probe.answered_within =
      std::min(FailureDetector::kernel_answer_bound(path), probe.answered_within);
  dialer.start(std::move(probe), {}, now);
}

void LinkPaths::reconnect(PathEnd& end, TimeNs interval, TimeNs now) {
  PathSlot& slot = slots_[end.index];
  if (slot.dialer->joining()) slot.dialer->cancel();
  if (now - slot.dialer->started_at() < interval || slot.dialer->busy()) return;
  const bool anew = opens() && !mutated(Mutant::dead_connections);
  if (!anew) return probe_kernel(end, now);
  if (aim(*slot.path, now)) open(slot, now);
}

// Returns false when a connection of the new incarnation broke at once.
bool LinkPaths::attach(Path& path, std::optional<EstablishedConnection> data,
                       EstablishedConnection control, TimeNs now) {
  PathSlot& slot = slots_[path.index];
  slot.call_due = false;
  slot.next_join = 0;
  slot.joined_in_vain = 0;
  settled_ = false;
  if (data) (void)want_data();  // the peer's report may come later
  const Address remote = control.connection->remote().address;
  if (path.spec.relay) {
    shown_ = slots_.size();
  } else if (const auto pair = path.spec.addresses.on_proved(remote)) {
    path.spec.source = pair->source;
    path.spec.remote.address = pair->remote;
  }
  const Status attached = path.attach(host_.reactor(), std::move(data), std::move(control), now);
  if (attached.ok()) return true;
  R2CCL_LOG(info, "path %s to rank %d: %s", path.spec.local_name.c_str(), end_.peer.value(),
            attached.message().c_str());
  if (path.state.connected()) {
    path.break_by(DownCause::connection_lost, DownCause::none, attached.message());
  }
  return false;
}

void LinkPaths::on_dialed(PathDialer& dialer, DialedPath dialed) {
  Path& path = *find(dialer.request().path);
  events_.wake();
  if (dialed.data && !dialed.control) return on_joined(path, std::move(*dialed.data));
  if (!dialed.control) {
    const bool called = !dialer.request().call.empty();
    if (called) slots_[path.index].call_due = false;
    if (called || is_answer_of_peer(path, dialer.request())) {
      liveness_.on_alive();
      path.health.kernel_answered_at = now();
    }
    return;
  }
  liveness_.on_alive();
  if (path.state.connected()) {
    if (!detector_.pinged()) return;  // the peer has been heard in the meantime
    detector_.on_silence_ended(now());
    fail_path(path, DownCause::stalled, DownCause::none,
              "silent for long, while a new connection is answered", now());
  }
  if (path.spec.relay) on_relay_dialed(path, dialer.request());
  (void)attach(path, std::move(dialed.data), std::move(*dialed.control), now());
  events_.on_state_changed();
}

// Takes the data connection of an incarnation that may be over.
void LinkPaths::on_joined(Path& path, EstablishedConnection data) {
  const bool current =
      path.state.is_current(data.session.incarnation) || mutated(Mutant::join_dead);
  if (!path.lacks_data() || path.broken || !current) return;
  settled_ = false;
  (void)want_data();
  const Status joined = path.join(std::move(data));
  if (!joined.ok()) path.break_by(DownCause::connection_lost, DownCause::none, joined.message());
  events_.on_state_changed();
}

// One lost packet is no fault of the path, and neither is a shortage of this host, nor the silence
// of a peer that is stopped.
void LinkPaths::on_join_failed(PathSlot& slot, const DialFailure& failure) {
  Path& path = *slot.path;
  const bool heard = detector_.heard_at() >= slot.dialer->started_at();
  if (!path.lacks_data() || failure.error == EMFILE || !heard) return;
  if (++slot.joined_in_vain < kTriedInVain) return;
  path.break_by(DownCause::connection_lost, DownCause::none,
                "its data connection cannot be opened: " + failure.why);
}

void LinkPaths::on_dial_failed(PathDialer& dialer, const DialFailure& failure) {
  events_.wake();
  Path& path = *find(dialer.request().path);
  // An answer of the peer's process says more than the refusals after its end.
  if (failure.connected || !path.history.answered) last_dial_failure_ = failure.why;
  if (failure.error == EMFILE) {
    R2CCL_LOG(warn, "cannot dial rank %d: %s", end_.peer.value(), failure.why.c_str());
  } else {
    R2CCL_LOG(trace, "dial to rank %d failed: %s", end_.peer.value(), failure.why.c_str());
  }
  if (path.spec.relay) return on_relay_failed(slots_[path.index], failure);
  const bool of_peer = is_answer_of_peer(path, dialer.request());
  if (failure.connected && of_peer) path.health.kernel_answered_at = now();
  if (dialer.request().opens == DialOpens::data) on_join_failed(slots_[path.index], failure);
  const bool tells = !dialer.request().probe_only && !path.state.connected();
  if (tells) path.note_attempt(failure.why, failure.connected);
  if (!path.state.connected()) path.spec.addresses.on_failed();
  const bool seeks = liveness_.seeks() || events_.peer_said_goodbye();
  if (!seeks || events_.peer_ended() || !of_peer) return;
  if (failure.connected) liveness_.on_alive();
  if (failure.error != ECONNREFUSED) return;
  liveness_.on_refused(path.index, now());
  // It may answer on another path. An idle one shows whether it does only at its next heartbeat.
  if (!liveness_.all_down()) detector_.on_doubt(now());
}

Result<AcceptDecision> LinkPaths::on_hello(const ConnectionIdentity& identity, Incarnation theirs) {
  const Path* path = find(identity.path);
  if (path == nullptr) return Status(Code::remote, "a path that this rank does not have");
  const bool own_nics =
      identity.from_nic == path->spec.remote_nic && identity.to_nic == path->spec.local_nic;
  if (!own_nics && !path->spec.relay) {
    return Status(Code::remote, "a path between other NICs");
  }
  if (identity.kind == ConnectionKind::call)
    return AcceptDecision{path->state.incarnation(), {}, {}};
  if (identity.from > identity.to) {
    return Status(Code::remote, "the lower rank opens the paths of a link");
  }
  const auto& pending = slots_[path->index].pending_data;
  AcceptDecision decision;
  decision.last_used = path->state.incarnation();
  if (pending) decision.last_used = std::max(decision.last_used, pending->session.incarnation);
  if (identity.kind == ConnectionKind::data && path->spec.control_only) {
    return Status(Code::remote, "a data connection on a path that has only a control stream");
  }
  if (identity.kind == ConnectionKind::join) {
    const bool lacks_control = pending && pending->session.incarnation == theirs;
    const bool lacks_data = path->lacks_data() && path->state.incarnation() == theirs;
    if (!lacks_control && !lacks_data && !mutated(Mutant::join_dead)) {
      return Status(Code::remote, "a connection that joins nothing");
    }
    decision.join = theirs;
  }
  return decision;
}

void LinkPaths::adopt(EstablishedConnection established) {
  Path* path = find(established.session.identity.path);
  if (path == nullptr || events_.peer_ended()) return;
  auto& pending = slots_[path->index].pending_data;
  const Incarnation incarnation = established.session.incarnation;
  events_.wake();
  switch (established.session.identity.kind) {
    case ConnectionKind::data:
      if (incarnation > path->state.incarnation()) pending = std::move(established);
      return;
    case ConnectionKind::join:
      if (!pending || pending->session.incarnation != incarnation) {
        return on_joined(*path, std::move(established));
      }
      return adopt_control(*path, std::exchange(pending, std::nullopt), std::move(established));
    default:
      if (pending && pending->session.incarnation <= incarnation) pending.reset();
      return adopt_control(*path, std::nullopt, std::move(established));
  }
}

// The peer dials only a path that it has lost, so the present connection is dead on its side.
void LinkPaths::adopt_control(Path& path, std::optional<EstablishedConnection> data,
                              EstablishedConnection control) {
  if (path.state.connected()) {
    fail_path(path, DownCause::connection_lost, DownCause::none, "the peer opened it anew", now());
  }
  path.set_nic(control.came_by);
  if (path.spec.relay) {
    in_use_ = slots_.size();
    path.spec.remote = control.connection->remote();
  }
  (void)attach(path, std::move(data), std::move(control), now());
  events_.on_state_changed();
}

// The path may be back: begins the next attempt at once, in place of one that no kernel has
// answered.
void LinkPaths::hint(PathSlot& slot) {
  if (!slot.path->state.connected() && slot.dialer->connecting()) slot.dialer->cancel();
  slot.path->backoff.on_hint(now());
}

// A connected path keeps its addresses, as long as both ends still have them.
void LinkPaths::readdress(PathSlot& slot) {
  PathSpec& spec = slot.path->spec;
  const auto here = [&](const Address& remote) { return leads_here(spec, remote); };
  const AddressPair current{spec.source, spec.remote.address};
  const auto next = spec.addresses.next(here);
  const bool gone =
      std::ranges::find(spec.addresses.pairs(), current) == spec.addresses.pairs().end();
  if (gone && next) {
    spec.source = next->source;
    spec.remote.address = next->remote;
  }
  hint(slot);
  events_.wake();
}

// A peer tells its addresses also when its NIC is back with the old ones.
void LinkPaths::set_remote(NicId remote_nic, const std::vector<Address>& addresses, uint16_t port) {
  for (PathSlot& slot : std::span(slots_).first(in_use_)) {
    PathSpec& spec = slot.path->spec;
    if (spec.remote_nic != remote_nic || spec.addresses.is_fixed()) continue;
    spec.addresses.set_theirs(addresses);
    spec.remote.port = port;
    readdress(slot);
  }
}

void LinkPaths::set_source(NicId local_nic, const std::vector<Address>& addresses) {
  for (PathSlot& slot : std::span(slots_).first(in_use_)) {
    PathSpec& spec = slot.path->spec;
    if (spec.local_nic != local_nic || spec.addresses.is_fixed()) continue;
    spec.addresses.set_own(addresses);
    readdress(slot);
  }
}

}  // namespace r2ccl
