#include "runtime/connection/acceptor.h"

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"

namespace r2ccl {
namespace {

constexpr TimeNs kShortagePause = 100 * kMillisecond;
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

class Acceptor::Door final : public EventHandler {
 public:
  Door(Acceptor& owner, std::unique_ptr<Listener> listener, NicId nic)
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

class Acceptor::Stranger final : public EventHandler {
 public:
  Stranger(Acceptor& owner, std::unique_ptr<Connection> connection,
           std::unique_ptr<Handshake> handshake, TimeNs give_up_at)
      : place(owner.crowd_, connection->remote().address),
        io(std::move(connection), std::move(handshake)),
        deadline(give_up_at),
        owner_(owner) {}
  void on_ready(const PollEvent&) override {
    const Work work = place.is_reserved() ? kPeers : kStrangers;
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

  Crowd::Place place;
  HandshakeIo io;
  TimeNs deadline;  // it is freed then
  bool finished = false;
  Reactor::Registration registration;

 private:
  Acceptor& owner_;
};

Acceptor::Acceptor(Reactor& reactor, Transport& transport, const Clock& clock,
                   const RunIdentity& run, Callbacks callbacks)
    : reactor_(reactor),
      transport_(transport),
      clock_(clock),
      run_(run),
      callbacks_(std::move(callbacks)) {}

Acceptor::~Acceptor() = default;

Result<Endpoint> Acceptor::listen(const Address& local, const std::string& device, NicId nic) {
  auto listener = transport_.listen({local, 0}, device);
  if (!listener.ok()) return listener.status();
  const Endpoint endpoint = listener.value()->local();
  auto door = std::make_unique<Door>(*this, std::move(listener).value(), nic);
  R2CCL_RETURN_IF_ERROR(door->open());
  doors_.push_back(std::move(door));
  return endpoint;
}

void Acceptor::accept_from(Door& door) {
  const TimeNs now = clock_.now();
  for (int i = 0; i < kAcceptsPerTurn && has_time(kAccepts); ++i) {
    const Timer timer(*this, kAccepts);
    std::unique_ptr<Connection> connection = door.listener().accept();
    if (connection != nullptr) {
      admit(door, std::move(connection), now);
      continue;
    }
    const int error = door.listener().accept_error();
    if (error == 0) return;
    R2CCL_LOG(warn, "%s", system_error("cannot accept connections", error).message().c_str());
    if (!crowd_.shrink(now)) return door.pause(now + kShortagePause);
    evict_surplus();
  }
}

void Acceptor::admit(Door& door, std::unique_ptr<Connection> connection, TimeNs now) {
  const int poll_id = connection->poll_id();
  auto stranger = std::make_unique<Stranger>(
      *this, std::move(connection),
      make_acceptor(run_, door.nic(), callbacks_.policy, callbacks_.nonce()),
      now + limits::kHandshakeAgeMax);
  auto added = reactor_.add(poll_id, *stranger, false);
  if (!added.ok()) return;
  stranger->registration = std::move(added).value();
  strangers_.push_back(std::move(stranger));
  evict_surplus();
}

void Acceptor::evict_surplus() {
  while (crowd_.too_many()) {
    const auto goes = std::ranges::find_if(
        strangers_, [](const auto& stranger) { return stranger->place.is_of_the_largest(); });
    if (!(*goes)->finished) ++refused_;
    strangers_.erase(goes);
  }
}

void Acceptor::finish(Stranger& stranger, bool established) {
  stranger.registration.reset();
  stranger.finished = true;
  if (established) {
    stranger.deadline = 0;  // progress() frees it: this runs inside a call of its own
    callbacks_.established(stranger.io.take());
  } else {
    ++refused_;
    stranger.deadline = std::min(stranger.deadline, clock_.now() + kLastWords);
    R2CCL_LOG(info, "refused a connection of %s: %s",
              to_string(stranger.io.connection().remote()).c_str(),
              stranger.io.error().message().c_str());
  }
}

void Acceptor::progress(TimeNs now) {
  spent_ = {};
  crowd_.recover(now);
  std::erase_if(strangers_, [&](const auto& stranger) {
    if (now < stranger->deadline) return false;
    if (!stranger->finished) ++refused_;
    return true;
  });
  for (const auto& door : doors_) {
    if (now < door->paused_until()) continue;
    if (!door->open().ok()) door->pause(now + kShortagePause);
  }
}

TimeNs Acceptor::next_timeout() const {
  TimeNs next = kNever;
  for (const auto& stranger : strangers_) next = std::min(next, stranger->deadline);
  for (const auto& door : doors_) next = std::min(next, door->paused_until());
  return next;
}

}  // namespace r2ccl
