#include "runtime/engine/progress_engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/link/notice.h"
#include "runtime/peers/nic_match.h"
#include "transport/nic_choice.h"

namespace r2ccl {
namespace {

// The time after which the other communicators of the process have their share of a pass.
constexpr TimeNs kTurnShare = 50 * kMicrosecond;
// The interval of pings on the other paths of a NIC in doubt.
constexpr TimeNs kPingInterval = 100 * kMillisecond;

}  // namespace

ProgressEngine::ProgressEngine(ProcessEngine& shared, HandlerOwner& owner, EngineOptions options)
    : shared_(shared),
      options_(std::move(options)),
      reactor_(shared.reactor(), owner),
      nics_(shared.transport(), shared.nic_queues(), make_listeners()),
      relays_({reactor_, shared.scratch(), options_.link.witness}, shared.transport(),
              shared.clock(), job_, peers_, nics_),
      unreached_(job_, options_.link.cutoff),
      pauses_(shared.clock()) {}

ProgressEngine::~ProgressEngine() = default;

std::unique_ptr<Acceptor> ProgressEngine::make_listeners() {
  Acceptor::Callbacks callbacks;
  callbacks.handshake = [this](NicId came_by) {
    const auto policy = [this](const ConnectionIdentity& identity, Incarnation theirs) {
      return on_hello(identity, theirs);
    };
    return make_acceptor(run_, came_by, policy, options_.nonce());
  };
  callbacks.established = [this](EstablishedConnection connection) {
    const Rank from = connection.session.identity.from;
    if (connection.session.identity.kind == ConnectionKind::relay) {
      return relays_.adopt(std::move(connection));
    }
    if (connection.session.identity.kind == ConnectionKind::call) {
      return on_call(from, connection.session.peer_payload);
    }
    peers_.find(from)->adopt(std::move(connection));
  };
  return std::make_unique<Acceptor>(reactor_, transport(), clock(), std::move(callbacks));
}

Result<AcceptDecision> ProgressEngine::on_hello(const ConnectionIdentity& identity,
                                                Incarnation theirs) {
  if (identity.kind == ConnectionKind::relay) return relays_.on_hello(identity);
  if (identity.to != self() || identity.from == self() || !job_.has(identity.from)) {
    return Status(Code::remote, "a connection meant for another rank");
  }
  return peers_.find(identity.from)->on_hello(identity, theirs);
}

Status ProgressEngine::open() {
  R2CCL_RETURN_IF_ERROR(nics_.open(options_.listen, options_.nonce));
  return shared_.watch_nics();
}

Status ProgressEngine::start(Rank self, MetJob met, EngineObserver& observer) {
  job_ = JobMap(self, std::move(met.rank_table));
  run_ = std::move(met.run);
  observer_ = &observer;
  reserve_places();
  peers_.reserve(job_.size());
  next_ping_.resize(nics_.count());
  ping_cursor_ = static_cast<size_t>(self.value());  // ranks ping different peers
  LinkSettings settings = options_.link;
  settings.links = std::max<size_t>(job_.size() - 1, 1);
  for (const RankInfo& peer : job_.ranks()) {
    if (peer.rank != self) R2CCL_RETURN_IF_ERROR(add_link(peer, settings));
  }
  return nics_.begin();  // last: each rank of the job has its link
}

Status ProgressEngine::add_link(const RankInfo& peer, const LinkSettings& settings) {
  std::vector<PathSpec> paths = make_paths(own_info(), peer);
  for (PathSpec& path : paths) path.device = bound_device(path.device);
  if (!std::ranges::any_of(paths, [](const PathSpec& path) { return !path.control_only; })) {
    return {Code::system, r2ccl::describe(own_info()) + " and " + r2ccl::describe(peer) +
                              " have no NICs that could reach each other: compare `r2ccl info`"};
  }
  const bool third_host = job_.hosts() > 2 && peer.host != own_info().host;
  if (third_host) paths.push_back(relay_path());
  peers_.add(
      std::make_unique<Link>(static_cast<LinkHost&>(*this), self(), peer.rank, paths, settings));
  return {};
}

void ProgressEngine::reserve_places() {
  std::vector<Address> peers;
  for (const RankInfo& info : job_.ranks()) {
    for (const NicInfo& nic : info.nics) {
      peers.insert(peers.end(), nic.addresses.begin(), nic.addresses.end());
    }
    for (const Endpoint& endpoint : info.control) peers.push_back(endpoint.address);
  }
  nics_.reserve(std::move(peers));
}

LockedBytes ProgressEngine::child_secret(std::span<const std::byte, kJobIdBytes> child_id) const {
  return derive_child_secret(run_, child_id);
}

bool ProgressEngine::ready() const {
  return std::ranges::all_of(peers_.links(), [](const Link* link) { return link->ready(); });
}

std::vector<Rank> ProgressEngine::unreached() const {
  std::vector<Rank> missing;
  for (const Link* link : peers_.links()) {
    if (!link->ready()) missing.push_back(link->peer());
  }
  return missing;
}

void ProgressEngine::halt() noexcept {
  if (halted()) return;
  const TimeNs now = clock().now();
  last_word_.begin(now);
  nics_.close();
  relays_.pipes().end_all();
  for (Link* link : peers_.links()) link->halt();
  last_word_.tell(now, peers_.links());
}

void ProgressEngine::progress() {
  const TimeNs now = clock().now();
  if (halted()) return last_word_.tell(now, peers_.links());
  pauses_.begin(now);
  if (nics_.may_have_changed(now)) apply(nics_.read(now));
  peers_.mark_due(now);
  peers_.progress(now, shared_.member_count() > 1 ? kTurnShare : kNever, pauses_);
  relays_.pipes().progress(now);
  nics_.progress(now);
  log_suppressed();
  pauses_.end();
}

TimeNs ProgressEngine::next_timeout() {
  if (halted()) return last_word_.next_timeout(clock().now());
  TimeNs next = std::min(nics_.next_timeout(), relays_.pipes().next_timeout());
  // Use the end of the last pass, not the current time: elapsed time must not postpone a timer.
  next = std::min(next, peers_.has_more() ? pauses_.ended_at() : peers_.next_deadline());
  pauses_.promise(next);
  return next;
}

void ProgressEngine::on_path_event(const PathEvent& event) {
  if (event.to == PathPhase::suspect || event.to == PathPhase::down) ping_witnesses(event);
  observer_->on_path_event(event);
}

// When a path is in doubt, either of its NICs may be at fault. Other paths of this rank's NIC show
// which one, but an idle path would not notice before its next heartbeat. All ranks ping in this
// way, so log2 p paths each are enough to tell the NICs apart.
void ProgressEngine::ping_witnesses(const PathEvent& event) {
  if (event.local_nic == kNoNic) return;
  TimeNs& next_ping = next_ping_[event.local_nic.value()];
  if (event.at < next_ping) return;
  next_ping = event.at + kPingInterval;
  const uint32_t other_end = job_.host_of(event.peer);
  size_t wanted = std::bit_width(job_.size() - 1);
  // Ranks on the other end's host share its NIC, so their answers tell less.
  for (const bool there : {false, true}) {
    for (size_t i = 0; i < job_.size() && wanted > 0; ++i) {
      Link* link = peers_.find(Rank(static_cast<int32_t>(ping_cursor_)));
      ping_cursor_ = (ping_cursor_ + 1) % job_.size();
      if (link == nullptr || link->peer() == event.peer || link->peer_ended()) continue;
      const bool same = job_.host_of(link->peer()) == other_end;
      if (same == there && link->ping(event.local_nic)) --wanted;
    }
  }
}

void ProgressEngine::apply(const LocalNics::Changes& changes) {
  for (const LocalNics::Change& change : changes.nics) {
    if (change.moved) advertise(change.nic);
    if (!change.alive) continue;
    for (Link* link : peers_.links()) link->on_nic_change(change.nic, *change.alive, change.cause);
  }
  if (changes.lost.empty()) return;
  for (Link* link : peers_.links()) link->on_source_lost(changes.lost);
}

// The engine handles notices to links itself. The observer gets all others.
void ProgressEngine::on_notice(Rank peer, std::span<const std::byte> bytes) {
  const NoticeView notice = view_notice(bytes);
  if (notice.kind == NoticeKind::drained) return on_drained(peer, notice.body);
  if (notice.kind == NoticeKind::address) return on_address(peer, notice.body);
  if (notice.kind == NoticeKind::silent) return on_doubt(notice.body);
  observer_->on_notice(peer, bytes);
}

// A call reaches this rank when no control stream does. Only the peer's new address cannot wait.
void ProgressEngine::on_call(Rank peer, std::span<const std::byte> bytes) {
  const NoticeView notice = view_notice(bytes);
  if (notice.kind == NoticeKind::address) on_address(peer, notice.body);
}

// Holds a NIC's queue against the paths that use the NIC.
void ProgressEngine::check_nic(NicId nic, const NicQueue& queue) const {
  queue.check_invariants();
  uint64_t outstanding = 0;
  size_t busy = 0;
  for (const Link* link : peers_.links()) {
    for (const Path* path : link->paths()) {
      if (path->nic() != nic) continue;
      outstanding += path->model.bytes_outstanding();
      busy += path->model.outstanding().empty() ? 0 : 1;
    }
  }
  outstanding += relays_.pipes().outstanding(queue);
  busy += relays_.pipes().busy(queue);
  // The links of other members may use the NIC, too.
  const bool alone = shared_.member_count() == 1;
  R2CCL_CHECK(alone ? queue.outstanding() == outstanding : queue.outstanding() >= outstanding);
  R2CCL_CHECK(alone ? queue.busy_paths() == busy : queue.busy_paths() >= busy);
}

void ProgressEngine::check_invariants() const {
  peers_.check_invariants();
  relays_.pipes().check_invariants();
  for (size_t i = 0; i < nics_.count(); ++i) {
    const NicId nic(static_cast<uint16_t>(i));
    check_nic(nic, nics_.queue(nic));
  }
  check_nic(kNoNic, nics_.queue(kNoNic));
}

}  // namespace r2ccl
