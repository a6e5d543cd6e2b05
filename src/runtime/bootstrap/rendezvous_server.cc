#include "runtime/bootstrap/rendezvous_server.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "base/log.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/config/duration_text.h"

namespace r2ccl {
namespace {

// The pause after descriptors ran out: another part of the process must close one first.
constexpr TimeNs kAcceptPause = 100 * kMillisecond;
// Where the server has greeted so many who have not proved who they are, further ranks wait in the
// backlog: 1,000 ranks that arrive at once would otherwise all be slow. The silent do not count,
// for they cost nothing and may be strangers. A greeting may come from a stranger too, so the
// server accepts again once one of these handshakes is older than its patience.
constexpr size_t kHandshakesAtOnce = 64;
constexpr TimeNs kHandshakePatience = 200 * kMillisecond;
constexpr TimeNs kFullPause = 1 * kMillisecond;
// Bounds how long accepting delays the connections that are open, and how many more than
// kHandshakesAtOnce there are.
constexpr int kAcceptsPerTurn = 16;
// The time that a dismissed connection has to close. If the server closed first, the peer could
// lose the reason.
constexpr TimeNs kGoodbye = 2 * kSecond;
// The time that a rank has to fetch the table after it lost its connection.
constexpr TimeNs kTableKept = 60 * kSecond;
constexpr int kMissingRanksNamed = 16;

// Returns false once the peer has closed.
bool discard_input(Connection& connection) {
  std::array<std::byte, 2048> buffer;
  const iovec slice{buffer.data(), buffer.size()};
  const IoKind kind = connection.read(std::span(&slice, 1)).kind;
  return kind == IoKind::progressed || kind == IoKind::blocked;
}

}  // namespace

// A listener. It leaves the reactor for a while when descriptors have run out or handshakes are
// many: readiness is level-triggered, so the backlog would keep the thread spinning.
struct RendezvousServer::ListenSocket final : EventHandler {
  std::unique_ptr<Listener> listener;
  Reactor::Registration registration;
  bool ready = true;
  TimeNs closed_until = 0;
  void on_ready(const PollEvent&) override { ready = true; }
  void close_until(TimeNs time) {
    registration.reset();
    closed_until = time;
  }
};

class RendezvousServer::PendingConnection final : public EventHandler {
 public:
  enum class State : uint8_t {
    shaking_hands,  // the peer is unknown; `handshake` is set, and stays if it fails
    silent,         // authenticated, so `stream` is set; its rank info has not arrived
    waiting,        // has a slot and waits for the table
    served,         // the table is being sent; waits for the acknowledgement
    joined,         // it waits until all ranks have acknowledged
    leaving,        // has the reason for its dismissal, or is done; waits for it to close
  };

  void on_ready(const PollEvent&) override { ready = true; }
  bool is_greeted() const { return state == State::shaking_hands && handshake->has_spoken(); }

  State state = State::shaking_hands;
  bool ready = true;
  TimeNs accepted_at = 0;
  TimeNs deadline = kNever;       // its effect depends on the state
  uint32_t timeout_ms = 0;        // while waiting: the timeout of the rank's caller
  Rank rank;                      // authenticated by the handshake
  HandshakeLimiter::Place place;  // until it has a slot
  std::unique_ptr<HandshakeIo> handshake;
  std::unique_ptr<SealedStream> stream;
  Reactor::Registration registration;  // last: it must end before the connection does
};

// The server's record of one rank that has arrived.
struct RendezvousServer::Slot {
  std::vector<std::byte> info;
  std::string who;  // for the error of a second process that claims the rank
  Attendance attendance{};
  PendingConnection* pending = nullptr;  // null: lost after the table was complete
  bool acknowledged = false;
};

RendezvousServer::RendezvousServer(Reactor& reactor,
                                   std::vector<std::unique_ptr<Listener>> listeners,
                                   Options options)
    : reactor_(reactor), options_(std::move(options)), token_(LockedBytes::random(kRunTokenBytes)) {
  for (auto& listener : listeners) {
    auto listen_socket = std::make_unique<ListenSocket>();
    listen_socket->listener = std::move(listener);
    listen_sockets_.push_back(std::move(listen_socket));
  }
}

RendezvousServer::~RendezvousServer() = default;

std::vector<Endpoint> RendezvousServer::endpoints() const {
  std::vector<Endpoint> out;
  for (const auto& listen_socket : listen_sockets_) out.push_back(listen_socket->listener->local());
  return out;
}

void RendezvousServer::progress(TimeNs now) {
  if (finished_) return;
  if (idle_since_ == kNever) idle_since_ = now;
  limiter_.recover(now);
  for (const auto& listen_socket : listen_sockets_) accept_from(*listen_socket, now);
  for (auto it = pending_.begin(); it != pending_.end();) {
    PendingConnection& pending = **it;
    bool stays = true;
    if (pending.ready) {
      pending.ready = false;
      stays = serve_in_any_case(pending, now);
    }
    if (!stays) release_slot(pending, now);
    it = stays ? std::next(it) : pending_.erase(it);
  }
  check_times(now);
  if (finished_) return;
  for (const auto& pending : pending_) {
    const bool writes =
        pending->stream ? pending->stream->wants_write() : pending->handshake->wants_write();
    pending->registration.want_write(writes);
  }
}

bool RendezvousServer::told_all() const {
  return !failure_.ok() && std::ranges::none_of(pending_, [](const auto& pending) {
    return pending->stream != nullptr;
  });
}

TimeNs RendezvousServer::next_timeout() const {
  if (finished_) return kNever;
  TimeNs at = std::min(table_deadline_, idle_end());
  for (const auto& listen_socket : listen_sockets_) {
    if (!listen_socket->registration) at = std::min(at, listen_socket->closed_until);
  }
  // A connection that became ready inside progress(), by another's arrival, is served at once.
  for (const auto& pending : pending_) at = std::min(at, pending->ready ? 0 : pending->deadline);
  return at;
}

void RendezvousServer::accept_from(ListenSocket& listen_socket, TimeNs now) {
  if (!listen_socket.registration) {
    if (now < listen_socket.closed_until) return;
    auto added = reactor_.add(listen_socket.listener->poll_id(), listen_socket, false);
    listen_socket.closed_until = now + kAcceptPause;
    if (!added.ok()) return;
    listen_socket.registration = std::move(added).value();
    listen_socket.ready = true;
  }
  if (!listen_socket.ready) return;
  listen_socket.ready = false;  // the poller reports again when more are waiting
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (is_full(now)) return listen_socket.close_until(now + kFullPause);
    std::unique_ptr<Connection> connection = listen_socket.listener->accept();
    if (connection != nullptr) {
      admit(std::move(connection), now);
      continue;
    }
    const int error = listen_socket.listener->accept_error();
    if (error == 0) return;
    R2CCL_LOG(warn, "rendezvous: %s",
              system_error("cannot accept connections", error).message().c_str());
    if (!limiter_.shrink(now)) return listen_socket.close_until(now + kAcceptPause);
    evict_surplus();
  }
}

bool RendezvousServer::is_full(TimeNs now) const {
  if (handshake_count() < kHandshakesAtOnce) return false;
  size_t greeted = 0;
  for (const auto& pending : pending_) {
    if (!pending->is_greeted()) continue;
    if (now >= pending->accepted_at + kHandshakePatience) return false;
    ++greeted;
  }
  return greeted >= kHandshakesAtOnce;
}

void RendezvousServer::admit(std::unique_ptr<Connection> connection, TimeNs now) {
  auto pending = std::make_unique<PendingConnection>();
  auto added = reactor_.add(connection->poll_id(), *pending, false);
  if (!added.ok()) return;
  pending->registration = std::move(added).value();
  pending->place = HandshakeLimiter::Place(limiter_, connection->remote().address);
  pending->accepted_at = now;
  pending->deadline = now + limits::kHandshakeAgeMax;
  pending->handshake = std::make_unique<HandshakeIo>(
      std::move(connection), make_rendezvous_acceptor(options_.job, options_.nonce()));
  pending_.push_back(std::move(pending));
  evict_surplus();
}

// Evicts the oldest of an address, but the silent first: a rank greets at once, also one whose host
// a flood comes from.
void RendezvousServer::evict_surplus() {
  while (limiter_.too_many()) {
    auto victim = pending_.end();
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      if (!(*it)->place.is_of_the_largest()) continue;
      if (victim == pending_.end()) victim = it;
      if ((*it)->is_greeted()) continue;
      victim = it;
      break;
    }
    pending_.erase(victim);
    ++counters_.evicted;
  }
}

// A rank for which there is no memory is sent away, and comes again.
bool RendezvousServer::serve_in_any_case(PendingConnection& pending, TimeNs now) {
  try {
    return serve(pending, now);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool RendezvousServer::serve(PendingConnection& pending, TimeNs now) {
  if (pending.stream != nullptr) return talk(pending, now);
  if (pending.state == PendingConnection::State::shaking_hands) return shake_hands(pending, now);
  return discard_input(pending.handshake->connection());
}

bool RendezvousServer::shake_hands(PendingConnection& pending, TimeNs now) {
  switch (pending.handshake->pump()) {
    case HandshakeIo::Progress::running:
      return true;
    case HandshakeIo::Progress::failed:
      ++counters_.refused;
      last_refusal_ = to_string(pending.handshake->connection().remote()) + ": " +
                      pending.handshake->error().message();
      R2CCL_LOG(info, "rendezvous: %s", last_refusal_.c_str());
      // A rank that does not fit has its reason and gets time to read it. An unauthenticated
      // connection closes at once.
      if (pending.handshake->error().code() == Code::remote) return false;
      pending.state = PendingConnection::State::leaving;
      pending.deadline = now + kGoodbye;
      return true;
    case HandshakeIo::Progress::done:
      break;
  }
  auto stream = std::make_unique<SealedStream>(kArrivalBytesMax);
  EstablishedConnection established = pending.handshake->take();
  pending.rank = established.session.identity.from;
  stream->open(std::move(established));
  pending.stream = std::move(stream);
  pending.handshake.reset();
  pending.state = PendingConnection::State::silent;
  return talk(pending, now);
}

bool RendezvousServer::talk(PendingConnection& pending, TimeNs now) {
  const Status status = pending.stream->pump();
  while (auto message = pending.stream->next()) {
    if (pending.state == PendingConnection::State::leaving) continue;
    if (!on_message(pending, std::move(*message), now)) return false;
  }
  return status.ok();
}

bool RendezvousServer::on_message(PendingConnection& pending, SealedStream::Message message,
                                  TimeNs now) {
  if (message.type == type_of(RendezvousMessage::arrive) &&
      pending.state == PendingConnection::State::silent) {
    Result<Arrival> arrival = decode_arrival(message.body);
    const Status taken =
        arrival.ok() ? take_slot(pending, std::move(arrival).value(), now) : arrival.status();
    if (!taken.ok()) {
      ++counters_.refused;
      last_refusal_ = taken.message();
      tell_refused(pending, taken, now);
    }
    return true;
  }
  const bool joined = message.type == type_of(RendezvousMessage::joined);
  const bool acknowledges = joined || message.type == type_of(RendezvousMessage::received);
  if (!acknowledges || pending.state != PendingConnection::State::served) return false;
  slots_.at(pending.rank).acknowledged = true;
  if (joined) pending.state = PendingConnection::State::joined;
  tell_all_joined(now);
  // Closing tells the rank that the acknowledgement has arrived and that it may close too.
  return joined;
}

bool RendezvousServer::all_acknowledged() const {
  return table_ != nullptr &&
         std::ranges::all_of(slots_, [](const auto& entry) { return entry.second.acknowledged; });
}

void RendezvousServer::tell_all_joined(TimeNs now) {
  if (!all_acknowledged()) return;
  for (const auto& pending : pending_) {
    if (pending->state != PendingConnection::State::joined) continue;
    pending->stream->send(type_of(RendezvousMessage::all_joined),
                          std::make_shared<std::vector<std::byte>>());
    pending->state = PendingConnection::State::leaving;
    pending->deadline = now + kGoodbye;
    pending->ready = true;  // to send the message
  }
}

Status RendezvousServer::take_slot(PendingConnection& pending, Arrival arrival, TimeNs now) {
  Result<RankInfo> info = decode_rank_info(arrival.info);
  if (!info.ok()) {
    // A rank of another version will not come again, so the others need not wait for it.
    if (info.status().code() == Code::invalid_usage && table_ == nullptr) {
      give_up(info.status(), now);
    }
    return info.status();
  }
  if (info.value().rank != pending.rank) {
    return {Code::invalid_usage, "the rank info is another rank's than the handshake"};
  }
  if (!failure_.ok()) return failure_.with_context("the rendezvous is over");
  R2CCL_RETURN_IF_ERROR(check_count(pending.rank, info.value(), arrival.rank_count));
  const auto found = slots_.find(pending.rank);
  if (found != slots_.end() && found->second.attendance != arrival.attendance) {
    return {Code::invalid_usage, "there are two processes with rank " +
                                     std::to_string(pending.rank.value()) + ": " +
                                     describe(info.value()) + " came after " + found->second.who};
  }
  if (!info.value().init_error.empty() && table_ == nullptr) {
    give_up(Status(Code::remote,
                   describe(info.value()) + " cannot take part: " + info.value().init_error)
                .with_ranks({pending.rank}),
            now);
    return failure_;
  }
  std::string who = describe(info.value());
  Slot& slot = slots_[pending.rank];  // the last line that may fail before the slot is complete
  if (slot.pending != nullptr) {
    // The same process has returned, so its old connection is dead, whether or not the server has
    // noticed.
    slot.pending->state = PendingConnection::State::leaving;
    slot.pending->deadline = now;
  }
  rank_count_ = arrival.rank_count;
  slot.info = std::move(arrival.info);
  slot.who = std::move(who);
  slot.attendance = arrival.attendance;
  slot.pending = &pending;
  pending.state = PendingConnection::State::waiting;
  pending.place.reset();
  pending.timeout_ms = arrival.timeout_ms;
  pending.deadline = now + patience(arrival.left_ms);
  if (table_ != nullptr || slots_.size() == static_cast<size_t>(rank_count_)) hand_out_table(now);
  return {};
}

// A rank of this job may wait as long as it likes. An unauthenticated one must not make the others
// wait.
TimeNs RendezvousServer::patience(uint32_t left_ms) const {
  const TimeNs wanted = static_cast<TimeNs>(left_ms) * kMillisecond;
  return options_.job.authenticated() ? wanted : std::min(wanted, options_.open_patience);
}

Status RendezvousServer::check_count(Rank rank, const RankInfo& info, int32_t rank_count) const {
  if (rank.value() >= rank_count) {
    return {Code::invalid_argument, describe(info) + " is out of range: there are " +
                                        std::to_string(rank_count) + " ranks"};
  }
  if (rank_count_ != 0 && rank_count != rank_count_) {
    return {Code::invalid_usage,
            describe(info) + " says that there are " + std::to_string(rank_count) + " ranks, and " +
                slots_.begin()->second.who + " said " + std::to_string(rank_count_)};
  }
  return {};
}

TimeNs RendezvousServer::idle_end() const {
  const bool is_unused = slots_.empty() && table_ == nullptr && failure_.ok();
  if (!is_unused || idle_since_ == kNever || options_.idle_bound == kNever) return kNever;
  return idle_since_ + options_.idle_bound;
}

void RendezvousServer::release_slot(const PendingConnection& pending, TimeNs now) {
  const auto found = slots_.find(pending.rank);
  if (found == slots_.end() || found->second.pending != &pending) return;
  found->second.pending = nullptr;
  // Before the table is complete, a rank that left counts as never arrived. Afterwards the others
  // may have its rank info already, so the server keeps its slot.
  if (table_ != nullptr) return;
  lost_[pending.rank] = found->second.who;
  slots_.erase(found);
  if (!slots_.empty()) return;
  rank_count_ = 0;
  idle_since_ = now;
}

void RendezvousServer::tell_refused(PendingConnection& pending, const Status& why, TimeNs now) {
  R2CCL_LOG(info, "rendezvous: %s", why.message().c_str());
  pending.stream->send(type_of(RendezvousMessage::refused),
                       std::make_shared<std::vector<std::byte>>(encode_refused(why)));
  pending.state = PendingConnection::State::leaving;
  pending.deadline = now + kGoodbye;
  pending.ready = true;  // to send the message
}

void RendezvousServer::hand_out_table(TimeNs now) {
  if (table_ == nullptr) {
    std::vector<std::span<const std::byte>> rank_table;
    for (const auto& [rank, slot] : slots_) rank_table.emplace_back(slot.info);
    table_ = std::make_shared<std::vector<std::byte>>(encode_table(rank_table));
    table_deadline_ = now + kTableKept;
  }
  for (auto& [rank, slot] : slots_) {
    if (slot.pending == nullptr || slot.pending->state != PendingConnection::State::waiting)
      continue;
    slot.pending->stream->send(type_of(RendezvousMessage::token), token_);
    slot.pending->stream->send(type_of(RendezvousMessage::table), table_);
    slot.pending->state = PendingConnection::State::served;
    slot.pending->deadline = kNever;  // table_deadline_ covers it
    slot.pending->ready = true;
  }
}

Status RendezvousServer::missing_ranks(uint32_t timeout_ms) const {
  std::string list;
  int count = 0;
  std::vector<Rank> missing;
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    if (slots_.contains(Rank(rank))) continue;
    missing.emplace_back(rank);
    if (++count <= kMissingRanksNamed) list += (count > 1 ? ", " : "") + std::to_string(rank);
  }
  if (count > kMissingRanksNamed) {
    list += " and " + std::to_string(count - kMissingRanksNamed) + " more";
  }
  std::string text = std::string(count == 1 ? "rank " : "ranks ") + list + " of " +
                     std::to_string(rank_count_) + (count == 1 ? " has" : " have") +
                     " not arrived within " + duration_text(timeout_ms * kMillisecond);
  count = 0;
  for (const auto& [rank, who] : lost_) {
    if (slots_.contains(rank) || ++count > kMissingRanksNamed) continue;
    text += "; " + who + " had arrived, but its connection ended: did its process end?";
  }
  if (counters_.refused > 0) {
    text += "; " + std::to_string(counters_.refused) +
            " connections were refused, the last because: " + last_refusal_;
  }
  if (!options_.note.empty()) text += "; " + options_.note;
  return Status(Code::timeout, text).with_ranks(std::move(missing));
}

void RendezvousServer::check_times(TimeNs now) {
  const bool all_done =
      all_acknowledged() && std::ranges::none_of(slots_, [](const auto& entry) {
        const PendingConnection* pending = entry.second.pending;
        return pending != nullptr && pending->state == PendingConnection::State::leaving;
      });
  if (all_done || now >= table_deadline_ || now >= idle_end()) return finish();
  const PendingConnection* too_late = nullptr;
  for (auto it = pending_.begin(); it != pending_.end();) {
    const PendingConnection& pending = **it;
    const bool overdue = now >= pending.deadline;
    if (overdue && pending.state == PendingConnection::State::waiting) too_late = &pending;
    if (!overdue || pending.state == PendingConnection::State::waiting) {
      ++it;
      continue;
    }
    if (pending.state != PendingConnection::State::leaving) ++counters_.evicted;
    release_slot(pending, now);
    it = pending_.erase(it);
  }
  if (too_late != nullptr) give_up(missing_ranks(too_late->timeout_ms), now);
}

// When one rank's timeout passes, the job cannot start without it, so the server ends the wait of
// all ranks with the same list. A later rank gets that answer at once.
void RendezvousServer::give_up(const Status& why, TimeNs now) {
  failure_ = why;
  for (const auto& pending : pending_) {
    if (pending->state == PendingConnection::State::waiting) tell_refused(*pending, why, now);
  }
  slots_.clear();
  table_deadline_ = now + kTableKept;
}

void RendezvousServer::finish() {
  finished_ = true;
  pending_.clear();
  listen_sockets_.clear();
}

}  // namespace r2ccl
