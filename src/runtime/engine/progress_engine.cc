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
// The pause when the NICs cannot be read or listened on: descriptors may have run out.
constexpr TimeNs kNicsPause = 250 * kMillisecond;
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
      loopback_queue_(shared.nic_queue("")),
      relays_({reactor_, shared.scratch(), options_.link.witness}) {
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
  acceptor_ =
      std::make_unique<Acceptor>(reactor_, transport(), clock(), run_, std::move(callbacks));
}

ProgressEngine::~ProgressEngine() = default;

NicQueue& ProgressEngine::queue(NicId nic) {
  return nic == kNoNic ? loopback_queue_ : *queues_[nic.value()];
}

DialGate& ProgressEngine::dial_gate(NicId nic, bool shm) {
  if (nic != kNoNic) return gates_[nic.value()];
  return gates_[nics_.size() + (shm ? 0 : 1)];
}

Status ProgressEngine::open() {
  auto all = transport().nics();
  if (!all.ok()) return all.status();
  (void)note_addresses(all.value());
  R2CCL_RETURN_IF_ERROR(listen_on_nics(all.value()));
  R2CCL_RETURN_IF_ERROR(listen_out_of_band(all.value()));
  if (options_.shm) listen_in_shared_memory();
  return shared_.watch_nics();
}

Status ProgressEngine::start(Rank self, MetJob met, EngineObserver& observer) {
  self_ = self;
  job_ = JobMap(std::move(met.rank_table));
  run_ = std::move(met.run);
  observer_ = &observer;
  const RankInfo& mine = job_.info(self);
  reserve_places();
  R2CCL_RETURN_IF_ERROR(acceptor_->begin());
  for (const Nic& nic : nics_) queues_.push_back(&shared_.nic_queue(nic.name));
  // A gate of its own, so that a dead NIC does not hold up the dials of the others.
  const size_t gates = nics_.size() + 2;
  for (size_t i = 0; i < gates; ++i) {
    gates_.emplace_back(std::max<size_t>(limits::kFirstDialsMax / gates, 1));
  }
  schedule_ = LinkSchedule(job_.size());
  turns_.resize(job_.size());
  next_ping_.resize(nics_.size());
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
  // All peers of this host come by the name of this rank's listener.
  if (shm_.address.family != AddressFamily::none) peers.push_back(shm_.address);
  acceptor_->reserve(peers);
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
  acceptor_.reset();
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
  if (now >= read_nics_at_) refresh_nics(now);
  if (idle > limits::kPauseThreshold) pauses_ += idle;
  schedule_.mark_due(now);
  progress_links(now);
  relays_.progress(now);
  acceptor_->progress(now);
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
  TimeNs next = std::min({acceptor_->next_timeout(), relays_.next_timeout(), read_nics_at_});
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

void ProgressEngine::refresh_nics(TimeNs now) {
  read_nics_at_ = kNever;
  nics_read_at_ = now;
  auto all = transport().nics();
  if (!all.ok()) {
    R2CCL_LOG(warn, "cannot read the state of the NICs: %s", all.status().message().c_str());
    read_nics_at_ = now + kNicsPause;
    return;
  }
  const std::vector<Address> lost = note_addresses(all.value());
  for (size_t i = 0; i < nics_.size(); ++i) {
    const auto found = std::find_if(all.value().begin(), all.value().end(),
                                    [&](const Nic& nic) { return nic.name == nics_[i].name; });
    const bool present = found != all.value().end();
    const bool was_alive = nics_[i].alive();
    const bool is_alive = present && found->alive();
    if (present) {
      nics_[i].up = found->up;
      nics_[i].carrier = found->carrier;
      const bool moved = nics_[i].addresses != found->addresses || nics_[i].index != found->index;
      if (moved && !found->addresses.empty() && !advertise(i, *found)) {
        read_nics_at_ = now + kNicsPause;
      }
      if (found->addresses.empty()) nics_[i].addresses.clear();  // the same one may come back
    } else {
      nics_[i].up = false;
    }
    if (was_alive == is_alive) continue;
    const DownCause cause = nics_[i].up ? DownCause::carrier_lost : DownCause::interface_down;
    R2CCL_LOG(info, "%s is %s", nics_[i].name.c_str(), is_alive ? "up" : to_string(cause));
    for (const auto& link : links_) {
      if (link != nullptr) {
        link->on_nic_change(NicId(static_cast<uint16_t>(i)), is_alive, cause);
      }
    }
  }
  for (const auto& link : links_) {
    if (link != nullptr && !lost.empty()) link->on_source_lost(lost);
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
  for (size_t i = 0; i < queues_.size(); ++i) {
    check_nic(NicId(static_cast<uint16_t>(i)), *queues_[i]);
  }
  check_nic(kNoNic, loopback_queue_);
}

}  // namespace r2ccl
