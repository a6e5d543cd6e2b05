#include "runtime/engine/progress_engine.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/engine/nic_match.h"
#include "runtime/link/notice.h"
#include "transport/nic_choice.h"

namespace r2ccl {
namespace {

// Bounds the passes of the links within one pass of the engine: completions post more work, which
// completes.
constexpr int kRoundsMax = 64;
// The time after which a turn passes to the other communicators of the process.
constexpr TimeNs kTurnShare = 50 * kMicrosecond;
// A longer time between two clock readings means that the thread stood still, or has so much work
// that it must not count that time against its peers.
constexpr TimeNs kWorkMax = 20 * kMillisecond;

// How long, and how often, a rank that is out of memory tries to tell its peers.
constexpr TimeNs kEndBound = 1 * kSecond;
constexpr TimeNs kEndInterval = 5 * kMillisecond;

// The interval of pings on the other paths of a NIC in doubt.
constexpr TimeNs kPingInterval = 100 * kMillisecond;

}  // namespace

ProgressEngine::ProgressEngine(ProcessEngine& shared, HandlerOwner& owner, EngineOptions options)
    : shared_(shared),
      options_(std::move(options)),
      reactor_(shared.reactor(), owner),
      nics_(shared.transport(), shared.nic_queues(), make_acceptor()),
      relays_({reactor_, shared.scratch(), options_.link.witness}) {}

ProgressEngine::~ProgressEngine() = default;

std::unique_ptr<Acceptor> ProgressEngine::make_acceptor() {
  Acceptor::Callbacks callbacks;
  callbacks.policy = [this](const ConnectionIdentity& identity, Incarnation theirs) {
    return on_hello(identity, theirs);
  };
  callbacks.nonce = options_.nonce;
  callbacks.established = [this](EstablishedConnection connection) {
    const Rank from = connection.session.identity.from;
    if (connection.session.identity.kind == ConnectionKind::relay) {
      return on_relay(std::move(connection));
    }
    if (connection.session.identity.kind == ConnectionKind::call) {
      return on_call(from, connection.session.peer_payload);
    }
    links_[static_cast<size_t>(from.value())]->adopt(std::move(connection));
  };
  return std::make_unique<Acceptor>(reactor_, transport(), clock(), run_, std::move(callbacks));
}

Result<AcceptDecision> ProgressEngine::on_hello(const ConnectionIdentity& identity,
                                                Incarnation theirs) {
  if (identity.kind == ConnectionKind::relay) return on_relay_hello(identity);
  const auto from = static_cast<size_t>(identity.from.value());
  if (identity.to != self_ || identity.from == self_ || from >= links_.size()) {
    return Status(Code::remote, "a connection meant for another rank");
  }
  return links_[from]->on_hello(identity, theirs);
}

Status ProgressEngine::open() {
  R2CCL_RETURN_IF_ERROR(nics_.open(options_.listen, options_.nonce));
  return shared_.watch_nics();
}

Status ProgressEngine::start(Rank self, MetJob met, EngineObserver& observer) {
  self_ = self;
  job_ = JobMap(std::move(met.rank_table));
  run_ = std::move(met.run);
  observer_ = &observer;
  const RankInfo& mine = job_.info(self);
  reserve_places();
  R2CCL_RETURN_IF_ERROR(nics_.begin());
  schedule_ = LinkSchedule(job_.size());
  turns_.resize(job_.size());
  next_ping_.resize(nics_.count());
  ping_cursor_ = static_cast<size_t>(self.value());  // ranks ping different peers
  LinkSettings settings = options_.link;
  settings.links = std::max<size_t>(job_.size() - 1, 1);
  for (const RankInfo& peer : job_.ranks()) {
    links_.emplace_back();
    if (peer.rank == self) continue;
    std::vector<PathSpec> paths = make_paths(mine, peer);
    for (PathSpec& path : paths) path.device = bound_device(path.device);
    const bool third_host = job_.hosts() > 2 && peer.host != mine.host;
    const bool any_data = std::any_of(paths.begin(), paths.end(),
                                      [](const PathSpec& path) { return !path.control_only; });
    if (!any_data) {
      return {Code::system, describe_pair(mine, peer) +
                                " have no NICs that could reach each other: compare `r2ccl info`"};
    }
    if (third_host) paths.push_back(relay_path());
    links_.back() =
        std::make_unique<Link>(static_cast<LinkHost&>(*this), self, peer.rank, paths, settings);
    schedule_.mark(links_.size() - 1);
  }
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

std::string ProgressEngine::describe_pair(const RankInfo& a, const RankInfo& b) {
  return r2ccl::describe(a) + " and " + r2ccl::describe(b);
}

bool ProgressEngine::ready() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link == nullptr || link->ready(); });
}

std::vector<Rank> ProgressEngine::unreached() const {
  std::vector<Rank> missing;
  for (const auto& link : links_) {
    if (link != nullptr && !link->ready()) missing.push_back(link->peer());
  }
  return missing;
}

void ProgressEngine::reserve_end(std::vector<std::byte> notice) {
  ControlFrame frame;
  // It brings no state: a later version than `version` describes the paths and channels.
  frame.counted = 1;
  frame.notices.push_back({0, std::move(notice)});
  last_memory_.reserve(kControlHeaderBytes + encoded_body_bytes(frame) + kMacBytes);
  last_frame_ = std::move(frame);
}

void ProgressEngine::halt() noexcept {
  if (halted()) return;
  halted_at_ = clock().now();
  nics_.close();
  relays_.end_all();
  for (const auto& link : links_) {
    if (link != nullptr) link->halt();
  }
  last_frame_.sent_at = static_cast<uint64_t>(halted_at_);
  tell_end(halted_at_);
}

bool ProgressEngine::tell_end_to(Link& link) {
  try {
    return link.send_last(last_frame_, last_memory_);
  } catch (const std::bad_alloc&) {
    return false;  // only a transport with emulated faults takes memory to write
  }
}

void ProgressEngine::tell_end(TimeNs now) {
  if (end_told_) return;
  bool all = true;
  if (last_frame_.notices.empty()) return hang_up();  // it has not started
  for (const auto& link : links_) {
    if (link != nullptr) all = tell_end_to(*link) && all;
  }
  // A peer that does not read finds the connections closed.
  if (!all && now - halted_at_ >= kEndBound) return hang_up();
  end_told_ = all;
}

void ProgressEngine::hang_up() {
  for (const auto& link : links_) {
    if (link != nullptr) link->hang_up();
  }
  end_told_ = true;
}

void ProgressEngine::progress() {
  const TimeNs now = clock().now();
  if (halted()) return tell_end(now);
  looked_at_ = now;
  // The time in which this loop should have run and did not.
  TimeNs idle = std::max<TimeNs>(now - std::max(promised_, last_pass_end_), 0);
  idle += std::exchange(paused_, 0);
  if (nics_.may_have_changed(now)) apply(nics_.read(now));
  if (idle > limits::kPauseThreshold) pauses_ += idle;
  schedule_.mark_due(now);
  progress_links(now);
  relays_.progress(now);
  nics_.progress(now);
  log_suppressed();
  last_pass_end_ = look();
}

// The pass of one link may mark others, and itself. A link compensates for the pauses since its
// last pass before it does anything else, so a pause costs nothing for the links that have no work.
void ProgressEngine::progress_links(TimeNs now) {
  const TimeNs share = shared_.member_count() > 1 ? kTurnShare : kNever;
  const TimeNs began = now;
  for (int round = 0; round < kRoundsMax && schedule_.any_marked(); ++round) {
    if (round > 0) now = look();
    if (now - began >= share) return;
    if (paused_ > 0) return;  // every link first compensates for the pause
    std::optional<size_t> next;
    for (size_t from = 0; (next = schedule_.take_marked(from)); from = *next + 1) {
      Link& link = *links_[*next];
      LinkTurn& turn = turns_[*next];
      link.progress(now, pauses_ - std::exchange(turn.pauses, pauses_));
      turn.at = now;
      unsent_links_ -= turn.unsent ? 1 : 0;
      turn.unsent = link.has_unsent();
      unsent_links_ += turn.unsent ? 1 : 0;
      // A marked link has another turn before any deadline.
      if (!link.wants_progress()) schedule_.set_deadline(*next, link.next_timeout(now));
    }
  }
}

// Reads the clock in the middle of a pass, where a stop or a clock step is most likely while there
// is much work. The next pass begins with the arrived bytes, and compensates for the pause.
TimeNs ProgressEngine::look() {
  const TimeNs now = clock().now();
  if (now - looked_at_ > kWorkMax) paused_ += now - looked_at_;
  looked_at_ = now;
  return now;
}

TimeNs ProgressEngine::next_timeout() {
  if (halted()) return end_told_ ? kNever : clock().now() + kEndInterval;
  TimeNs next = std::min(nics_.next_timeout(), relays_.next_timeout());
  // Use the end of the last pass, not the current time: elapsed time must not postpone a timer.
  next = std::min(next, schedule_.any_marked() ? last_pass_end_ : schedule_.next_deadline());
  promised_ = next;
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
  const HostId& other_end = job_.info(event.peer).host;
  size_t wanted = std::bit_width(links_.size() - 1);
  // Ranks on the other end's host share its NIC, so their answers tell less.
  for (const bool there : {false, true}) {
    for (size_t i = 0; i < links_.size() && wanted > 0; ++i) {
      Link* link = links_[ping_cursor_].get();
      ping_cursor_ = (ping_cursor_ + 1) % links_.size();
      if (link == nullptr || link->peer() == event.peer || link->peer_ended()) continue;
      const bool same = job_.info(link->peer()).host == other_end;
      if (same == there && link->ping(event.local_nic)) --wanted;
    }
  }
}

void ProgressEngine::apply(const LocalNics::Changes& changes) {
  for (const LocalNics::Change& change : changes.nics) {
    if (change.moved) advertise(change.nic);
    if (!change.alive) continue;
    for (const auto& link : links_) {
      if (link != nullptr) link->on_nic_change(change.nic, *change.alive, change.cause);
    }
  }
  for (const auto& link : links_) {
    if (link != nullptr && !changes.lost.empty()) link->on_source_lost(changes.lost);
  }
}

// The engine handles notices to links itself. The observer gets all others.
void ProgressEngine::on_notice(Rank peer, std::span<const std::byte> bytes) {
  const NoticeKind kind = bytes.empty() ? NoticeKind{} : static_cast<NoticeKind>(bytes[0]);
  if (kind == NoticeKind::drained) return on_drained(peer, bytes.subspan(1));
  if (kind == NoticeKind::address) return on_address(peer, bytes.subspan(1));
  if (kind == NoticeKind::silent) return on_doubt(bytes.subspan(1));
  observer_->on_notice(peer, bytes);
}

// A call reaches this rank when no control stream does. Only the peer's new address cannot wait.
void ProgressEngine::on_call(Rank peer, std::span<const std::byte> bytes) {
  const bool address = !bytes.empty() && static_cast<NoticeKind>(bytes[0]) == NoticeKind::address;
  if (address) on_address(peer, bytes.subspan(1));
}

// Holds a NIC's queue against the paths that use the NIC.
void ProgressEngine::check_nic(NicId nic, const NicQueue& queue) const {
  queue.check_invariants();
  uint64_t outstanding = 0;
  size_t busy = 0;
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    for (const Path* path : link->paths()) {
      if (path->nic() != nic) continue;
      outstanding += path->model.bytes_outstanding();
      busy += path->model.outstanding().empty() ? 0 : 1;
    }
  }
  outstanding += relays_.outstanding(queue);
  busy += relays_.busy(queue);
  // The links of other members may use the NIC, too.
  const bool alone = shared_.member_count() == 1;
  R2CCL_CHECK(alone ? queue.outstanding() == outstanding : queue.outstanding() >= outstanding);
  R2CCL_CHECK(alone ? queue.busy_paths() == busy : queue.busy_paths() >= busy);
}

// Holds the marks and deadlines against all links: none may wait for work that the schedule lacks.
void ProgressEngine::check_schedule() const {
  schedule_.check_invariants();
  size_t unsent = 0;
  for (size_t i = 0; i < links_.size(); ++i) {
    unsent += turns_[i].unsent ? 1 : 0;
    if (links_[i] == nullptr) {
      R2CCL_CHECK(!schedule_.is_marked(i) && schedule_.deadline(i) == kNever);
      continue;
    }
    R2CCL_CHECK(links_[i]->wants_progress() == schedule_.is_marked(i));
    links_[i]->check_idle_until(schedule_.deadline(i), turns_[i].at);
  }
  R2CCL_CHECK(unsent == unsent_links_);
}

void ProgressEngine::check_invariants() const {
  check_schedule();
  relays_.check_invariants();
  for (const auto& link : links_) {
    if (link != nullptr) link->check_invariants();
  }
  for (size_t i = 0; i < nics_.count(); ++i) {
    const NicId nic(static_cast<uint16_t>(i));
    check_nic(nic, nics_.queue(nic));
  }
  check_nic(kNoNic, nics_.queue(kNoNic));
}

}  // namespace r2ccl
