#include "runtime/bootstrap/rendezvous_server.h"

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/config/duration_text.h"

namespace r2ccl {
namespace {

// The pause after descriptors ran out: another part of the process must close one first.
constexpr TimeNs kAcceptPause = 100 * kMillisecond;
// Bounds how long accepting delays the connections that are open.
constexpr int kAcceptsPerTurn = 64;
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

// A listener. It leaves the reactor for a while when descriptors have run out: readiness is
// level-triggered, so the backlog would keep the thread spinning.
struct RendezvousServer::Door final : EventHandler {
  std::unique_ptr<Listener> listener;
  Reactor::Registration registration;
  bool ready = true;
  TimeNs closed_until = 0;
  void on_ready(const PollEvent&) override { ready = true; }
};

class RendezvousServer::Guest final : public EventHandler {
 public:
  enum class State : uint8_t {
    shaking_hands,  // the peer is unknown; `handshake` is set, and stays if it fails
    silent,         // authenticated, so `stream` is set; its rank info has not arrived
    waiting,        // has a slot and waits for the table
    served,         // the table is being sent; waits for the acknowledgement
    leaving,        // has the reason for its dismissal, or is done; waits for it to close
  };

  void on_ready(const PollEvent&) override { ready = true; }

  State state = State::shaking_hands;
  bool ready = true;
  TimeNs deadline = kNever;  // its effect depends on the state
  uint32_t timeout_ms = 0;   // while waiting: the timeout of the rank's caller
  Rank rank;                 // authenticated by the handshake
  Crowd::Place place;        // until it has a slot
  std::unique_ptr<HandshakeIo> handshake;
  std::unique_ptr<SealedStream> stream;
  Reactor::Registration registration;  // last: it must end before the connection does
};

// The server's record of one rank that has arrived.
struct RendezvousServer::Seat {
  std::vector<std::byte> info;
  std::string who;  // for the error of a second process that claims the rank
  Attendance attendance{};
  Guest* guest = nullptr;  // null: it lost its connection after the table was complete
  bool acknowledged = false;
};

RendezvousServer::RendezvousServer(Reactor& reactor,
                                   std::vector<std::unique_ptr<Listener>> listeners,
                                   Options options)
    : reactor_(reactor), options_(std::move(options)), token_(LockedBytes::random(kRunTokenBytes)) {
  for (auto& listener : listeners) {
    auto door = std::make_unique<Door>();
    door->listener = std::move(listener);
    doors_.push_back(std::move(door));
  }
}

RendezvousServer::~RendezvousServer() = default;

std::vector<Endpoint> RendezvousServer::endpoints() const {
  std::vector<Endpoint> out;
  for (const auto& door : doors_) out.push_back(door->listener->local());
  return out;
}

void RendezvousServer::progress(TimeNs now) {
  if (finished_) return;
  crowd_.recover(now);
  for (const auto& door : doors_) accept_from(*door, now);
  for (auto it = guests_.begin(); it != guests_.end();) {
    Guest& guest = **it;
    bool stays = true;
    if (guest.ready) {
      guest.ready = false;
      stays = serve(guest, now);
    }
    if (!stays) release_seat(guest);
    it = stays ? std::next(it) : guests_.erase(it);
  }
  check_times(now);
  if (finished_) return;
  for (const auto& guest : guests_) {
    const bool writes =
        guest->stream ? guest->stream->wants_write() : guest->handshake->wants_write();
    guest->registration.want_write(writes);
  }
}

bool RendezvousServer::told_all() const {
  return !failure_.ok() &&
         std::ranges::none_of(guests_, [](const auto& guest) { return guest->stream != nullptr; });
}

TimeNs RendezvousServer::next_timeout() const {
  if (finished_) return kNever;
  TimeNs at = table_deadline_;
  for (const auto& door : doors_) {
    if (!door->registration) at = std::min(at, door->closed_until);
  }
  // A connection that became ready inside progress(), by another's arrival, is served at once.
  for (const auto& guest : guests_) at = std::min(at, guest->ready ? 0 : guest->deadline);
  return at;
}

void RendezvousServer::accept_from(Door& door, TimeNs now) {
  if (!door.registration) {
    if (now < door.closed_until) return;
    auto added = reactor_.add(door.listener->poll_id(), door, false);
    door.closed_until = now + kAcceptPause;
    if (!added.ok()) return;
    door.registration = std::move(added).value();
    door.ready = true;
  }
  if (!door.ready) return;
  door.ready = false;  // the poller reports again when more are waiting
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    std::unique_ptr<Connection> connection = door.listener->accept();
    if (connection != nullptr) {
      admit(std::move(connection), now);
      continue;
    }
    const int error = door.listener->accept_error();
    if (error == 0) return;
    R2CCL_LOG(warn, "rendezvous: %s",
              system_error("cannot accept connections", error).message().c_str());
    if (!crowd_.shrink(now)) {
      door.registration.reset();
      door.closed_until = now + kAcceptPause;
      return;
    }
    evict_surplus();
  }
}

void RendezvousServer::admit(std::unique_ptr<Connection> connection, TimeNs now) {
  auto guest = std::make_unique<Guest>();
  auto added = reactor_.add(connection->poll_id(), *guest, false);
  if (!added.ok()) return;
  guest->registration = std::move(added).value();
  guest->place = Crowd::Place(crowd_, connection->remote().address);
  guest->deadline = now + limits::kHandshakeAgeMax;
  guest->handshake = std::make_unique<HandshakeIo>(
      std::move(connection), make_rendezvous_acceptor(options_.job, options_.nonce()));
  guests_.push_back(std::move(guest));
  evict_surplus();
}

void RendezvousServer::evict_surplus() {
  while (crowd_.too_many()) {
    guests_.erase(std::ranges::find_if(
        guests_, [](const auto& guest) { return guest->place.is_of_the_largest(); }));
    ++counters_.evicted;
  }
}

bool RendezvousServer::serve(Guest& guest, TimeNs now) {
  if (guest.stream != nullptr) return talk(guest, now);
  if (guest.state == Guest::State::shaking_hands) return shake_hands(guest, now);
  return discard_input(guest.handshake->connection());
}

bool RendezvousServer::shake_hands(Guest& guest, TimeNs now) {
  switch (guest.handshake->pump()) {
    case HandshakeIo::Progress::running:
      return true;
    case HandshakeIo::Progress::failed:
      ++counters_.refused;
      last_refusal_ = to_string(guest.handshake->connection().remote()) + ": " +
                      guest.handshake->error().message();
      R2CCL_LOG(info, "rendezvous: %s", last_refusal_.c_str());
      // A rank that does not fit has its reason and gets time to read it. An unauthenticated
      // connection closes at once.
      if (guest.handshake->error().code() == Code::remote) return false;
      guest.state = Guest::State::leaving;
      guest.deadline = now + kGoodbye;
      return true;
    case HandshakeIo::Progress::done:
      break;
  }
  EstablishedConnection established = guest.handshake->take();
  guest.handshake.reset();
  guest.rank = established.session.identity.from;
  guest.stream = std::make_unique<SealedStream>(std::move(established), kArrivalBytesMax);
  guest.state = Guest::State::silent;
  return talk(guest, now);
}

bool RendezvousServer::talk(Guest& guest, TimeNs now) {
  const Status status = guest.stream->pump();
  while (auto message = guest.stream->next()) {
    if (guest.state == Guest::State::leaving) continue;
    if (!on_message(guest, std::move(*message), now)) return false;
  }
  return status.ok();
}

bool RendezvousServer::on_message(Guest& guest, SealedStream::Message message, TimeNs now) {
  if (message.type == type_of(RendezvousMessage::arrive) && guest.state == Guest::State::silent) {
    Result<Arrival> arrival = decode_arrival(message.body);
    const Status taken =
        arrival.ok() ? take_seat(guest, std::move(arrival).value(), now) : arrival.status();
    if (!taken.ok()) {
      ++counters_.refused;
      last_refusal_ = taken.message();
      tell_refused(guest, taken, now);
    }
    return true;
  }
  if (message.type == type_of(RendezvousMessage::received) && guest.state == Guest::State::served) {
    seats_.at(guest.rank).acknowledged = true;
    // Closing tells the rank that the acknowledgement has arrived and that it may close too.
    return false;
  }
  return false;
}

Status RendezvousServer::take_seat(Guest& guest, Arrival arrival, TimeNs now) {
  Result<RankInfo> info = decode_rank_info(arrival.info);
  if (!info.ok()) return info.status();
  if (info.value().rank != guest.rank) {
    return {Code::invalid_usage, "the card is another rank's than the handshake"};
  }
  if (!failure_.ok()) return failure_.with_context("the rendezvous is over");
  R2CCL_RETURN_IF_ERROR(check_count(guest.rank, info.value(), arrival.rank_count));
  const auto found = seats_.find(guest.rank);
  if (found != seats_.end() && found->second.attendance != arrival.attendance) {
    return {Code::invalid_usage, "there are two processes with rank " +
                                     std::to_string(guest.rank.value()) + ": " +
                                     describe(info.value()) + " came after " + found->second.who};
  }
  if (!info.value().init_error.empty() && table_ == nullptr) {
    give_up(
        {Code::remote, describe(info.value()) + " cannot take part: " + info.value().init_error},
        now);
    return failure_;
  }
  Seat& seat = seats_[guest.rank];
  if (seat.guest != nullptr) {
    // The same process has returned, so its old connection is dead, whether or not the server has
    // noticed.
    seat.guest->state = Guest::State::leaving;
    seat.guest->deadline = now;
  }
  rank_count_ = arrival.rank_count;
  seat.info = std::move(arrival.info);
  seat.who = describe(info.value());
  seat.attendance = arrival.attendance;
  seat.guest = &guest;
  guest.state = Guest::State::waiting;
  guest.place.reset();
  guest.timeout_ms = arrival.timeout_ms;
  guest.deadline = now + patience(arrival.left_ms);
  if (table_ != nullptr || seats_.size() == static_cast<size_t>(rank_count_)) hand_out_table(now);
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
                seats_.begin()->second.who + " said " + std::to_string(rank_count_)};
  }
  return {};
}

void RendezvousServer::release_seat(const Guest& guest) {
  const auto found = seats_.find(guest.rank);
  if (found == seats_.end() || found->second.guest != &guest) return;
  found->second.guest = nullptr;
  // Before the table is complete, a rank that left counts as never arrived. Afterwards the others
  // may have its rank info already, so the server keeps its slot.
  if (table_ != nullptr) return;
  lost_[guest.rank] = found->second.who;
  seats_.erase(found);
  if (seats_.empty()) rank_count_ = 0;
}

void RendezvousServer::tell_refused(Guest& guest, const Status& why, TimeNs now) {
  R2CCL_LOG(info, "rendezvous: %s", why.message().c_str());
  guest.stream->send(type_of(RendezvousMessage::refused),
                     std::make_shared<std::vector<std::byte>>(encode_refused(why)));
  guest.state = Guest::State::leaving;
  guest.deadline = now + kGoodbye;
  guest.ready = true;  // to send the message
}

void RendezvousServer::hand_out_table(TimeNs now) {
  if (table_ == nullptr) {
    std::vector<std::span<const std::byte>> rank_table;
    for (const auto& [rank, seat] : seats_) rank_table.emplace_back(seat.info);
    table_ = std::make_shared<std::vector<std::byte>>(encode_table(rank_table));
    table_deadline_ = now + kTableKept;
  }
  for (auto& [rank, seat] : seats_) {
    if (seat.guest == nullptr || seat.guest->state != Guest::State::waiting) continue;
    seat.guest->stream->send(type_of(RendezvousMessage::token), token_);
    seat.guest->stream->send(type_of(RendezvousMessage::table), table_);
    seat.guest->state = Guest::State::served;
    seat.guest->deadline = kNever;  // table_deadline_ covers it
    seat.guest->ready = true;
  }
}

Status RendezvousServer::missing_ranks(uint32_t timeout_ms) const {
  std::string list;
  int count = 0;
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    if (seats_.contains(Rank(rank))) continue;
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
    if (seats_.contains(rank) || ++count > kMissingRanksNamed) continue;
    text += "; " + who + " had arrived, but its connection ended: did its process end?";
  }
  if (counters_.refused > 0) {
    text += "; " + std::to_string(counters_.refused) +
            " connections were refused, the last because: " + last_refusal_;
  }
  return {Code::timeout, text};
}

void RendezvousServer::check_times(TimeNs now) {
  const bool all_done = table_ != nullptr && std::ranges::all_of(seats_, [](const auto& entry) {
                          return entry.second.acknowledged;
                        });
  if (all_done || now >= table_deadline_) return finish();
  const Guest* too_late = nullptr;
  for (auto it = guests_.begin(); it != guests_.end();) {
    const Guest& guest = **it;
    const bool overdue = now >= guest.deadline;
    if (overdue && guest.state == Guest::State::waiting) too_late = &guest;
    if (!overdue || guest.state == Guest::State::waiting) {
      ++it;
      continue;
    }
    if (guest.state != Guest::State::leaving) ++counters_.evicted;
    it = guests_.erase(it);
  }
  if (too_late != nullptr) give_up(missing_ranks(too_late->timeout_ms), now);
}

// When one rank's timeout passes, the job cannot start without it, so the server ends the wait of
// all ranks with the same list. A later rank gets that answer at once.
void RendezvousServer::give_up(const Status& why, TimeNs now) {
  failure_ = why;
  for (const auto& guest : guests_) {
    if (guest->state == Guest::State::waiting) tell_refused(*guest, why, now);
  }
  seats_.clear();
  table_deadline_ = now + kTableKept;
}

void RendezvousServer::finish() {
  finished_ = true;
  guests_.clear();
  doors_.clear();
}

}  // namespace r2ccl
