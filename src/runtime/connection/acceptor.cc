#include "runtime/connection/acceptor.h"

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"

namespace r2ccl {
namespace {

constexpr int kAcceptsPerTurn = 64;
// The time for each kind of work in one pass: pending connections must not delay the paths that are
// up.
constexpr TimeNs kTimePerPass = 1 * kMillisecond;
// A close discards undelivered bytes, so a refusal in words gets this time to arrive.
constexpr TimeNs kLastWords = 100 * kMillisecond;

}  // namespace

// Adds its lifetime to the time that the pass has spent on `work`.
class Acceptor::Timer {
 public:
  Timer(Acceptor& owner, Work work) : owner_(owner), work_(work), begin_(owner.clock_.now()) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { owner_.spent_[work_] += owner_.clock_.now() - begin_; }

 private:
  Acceptor& owner_;
  Work work_;
  TimeNs begin_;
};

bool Acceptor::has_time(Work work) const {
  return spent_[work] < kTimePerPass;
}

class Acceptor::ListenSocket final : public EventHandler {
 public:
  ListenSocket(Acceptor& owner, std::unique_ptr<Listener> listener, NicId nic)
      : owner_(owner), listener_(std::move(listener)), nic_(nic) {}
  Status open() {
    auto added = owner_.reactor_.add(listener_->poll_id(), *this, false);
    if (!added.ok()) return added.status();
    registration_ = std::move(added).value();
    paused_until_ = kNever;
    return {};
  }
  // Level-triggered readiness would spin on a connection that cannot be accepted.
  void pause(TimeNs until) {
    registration_.reset();
    paused_until_ = until;
  }
  void on_ready(const PollEvent&) override { owner_.accept_from(*this); }
  Listener& listener() { return *listener_; }
  NicId nic() const { return nic_; }
  TimeNs paused_until() const { return paused_until_; }

 private:
  Acceptor& owner_;
  std::unique_ptr<Listener> listener_;
  const NicId nic_;
  TimeNs paused_until_ = kNever;
  Reactor::Registration registration_;
};

class Acceptor::PendingConnection final : public EventHandler {
 public:
  PendingConnection(Acceptor& owner, std::unique_ptr<Connection> connection,
                    std::unique_ptr<Handshake> handshake, NicId came_by, TimeNs give_up_at)
      : nic(came_by),
        place(owner.limiter_, connection->remote().address),
        io(std::move(connection), std::move(handshake)),
        deadline(give_up_at),
        owner_(owner) {}
  void on_ready(const PollEvent&) override {
    const Work work = place.is_reserved() ? kPeers : kOthers;
    if (!owner_.has_time(work)) return;  // it stays ready, so the next pass goes on
    const Timer timer(owner_, work);
    switch (io.pump()) {
      case HandshakeIo::Progress::running:
        return registration.want_write(io.wants_write());
      case HandshakeIo::Progress::failed:
        return owner_.finish(*this, false);
      case HandshakeIo::Progress::done:
        return owner_.finish(*this, true);
    }
  }

  const NicId nic;
  HandshakeLimiter::Place place;
  HandshakeIo io;
  TimeNs deadline;  // it is freed then
  bool finished = false;
  Reactor::Registration registration;

 private:
  Acceptor& owner_;
};

Acceptor::Acceptor(Reactor& reactor, Transport& transport, const Clock& clock, Callbacks callbacks)
    : reactor_(reactor), transport_(transport), clock_(clock), callbacks_(std::move(callbacks)) {}

Acceptor::~Acceptor() = default;

Result<Endpoint> Acceptor::listen(const Address& local, const std::string& device, NicId nic,
                                  uint16_t port) {
  auto listener = transport_.listen({local, port}, device);
  if (!listener.ok()) return listener.status();
  const Endpoint endpoint = listener.value()->local();
  auto listen_socket = std::make_unique<ListenSocket>(*this, std::move(listener).value(), nic);
  if (accepts_) R2CCL_RETURN_IF_ERROR(listen_socket->open());
  std::erase_if(listen_sockets_,
                [nic](const auto& other) { return nic != kNoNic && other->nic() == nic; });
  listen_sockets_.push_back(std::move(listen_socket));
  return endpoint;
}

Status Acceptor::begin() {
  accepts_ = true;
  for (const auto& listen_socket : listen_sockets_) {
    R2CCL_RETURN_IF_ERROR(listen_socket->open());
  }
  return {};
}

void Acceptor::accept_from(ListenSocket& listen_socket) {
  const TimeNs now = clock_.now();
  for (int i = 0; i < kAcceptsPerTurn && has_time(kAccepts); ++i) {
    const Timer timer(*this, kAccepts);
    std::unique_ptr<Connection> connection = listen_socket.listener().accept();
    if (connection != nullptr) {
      admit(listen_socket, std::move(connection), now);
      continue;
    }
    const int error = listen_socket.listener().accept_error();
    if (error == 0) return;
    R2CCL_LOG(warn, "%s", system_error("cannot accept connections", error).message().c_str());
    if (!limiter_.shrink(now)) return listen_socket.pause(now + limits::kShortagePause);
    evict_surplus();
  }
}

void Acceptor::admit(ListenSocket& listen_socket, std::unique_ptr<Connection> connection,
                     TimeNs now) {
  const int poll_id = connection->poll_id();
  auto pending = std::make_unique<PendingConnection>(
      *this, std::move(connection), callbacks_.handshake(listen_socket.nic()), listen_socket.nic(),
      now + limits::kHandshakeAgeMax);
  auto added = reactor_.add(poll_id, *pending, false);
  if (!added.ok()) return;
  pending->registration = std::move(added).value();
  pending_.push_back(std::move(pending));
  evict_surplus();
}

void Acceptor::evict_surplus() {
  while (limiter_.too_many()) {
    const auto goes = std::ranges::find_if(
        pending_, [](const auto& pending) { return pending->place.is_of_the_largest(); });
    if (!(*goes)->finished) ++refused_;
    pending_.erase(goes);
  }
}

void Acceptor::finish(PendingConnection& pending, bool established) {
  pending.registration.reset();
  pending.finished = true;
  if (established) {
    pending.deadline = 0;  // progress() frees it: this runs inside a call of its own
    EstablishedConnection connection = pending.io.take();
    connection.came_by = pending.nic;
    callbacks_.established(std::move(connection));
  } else {
    ++refused_;
    pending.deadline = std::min(pending.deadline, clock_.now() + kLastWords);
    R2CCL_LOG(info, "refused a connection of %s: %s",
              to_string(pending.io.connection().remote()).c_str(),
              pending.io.error().message().c_str());
  }
}

void Acceptor::progress(TimeNs now) {
  spent_ = {};
  limiter_.recover(now);
  std::erase_if(pending_, [&](const auto& pending) {
    if (now < pending->deadline) return false;
    if (!pending->finished) ++refused_;
    return true;
  });
  for (const auto& listen_socket : listen_sockets_) {
    if (now < listen_socket->paused_until()) continue;
    if (!listen_socket->open().ok()) listen_socket->pause(now + limits::kShortagePause);
  }
}

TimeNs Acceptor::next_timeout() const {
  TimeNs next = kNever;
  for (const auto& pending : pending_) next = std::min(next, pending->deadline);
  for (const auto& listen_socket : listen_sockets_)
    next = std::min(next, listen_socket->paused_until());
  return next;
}

}  // namespace r2ccl
