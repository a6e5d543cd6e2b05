#include "runtime/connection/sealed_dialer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"

namespace r2ccl {
namespace {

constexpr TimeNs kPauseMax = 250 * kMillisecond;
constexpr const char* kUnproven = " (this peer has not proved that it belongs to this job)";

}  // namespace

SealedDialer::SealedDialer(Transport& transport, Reactor& reactor, Options options, TimeNs now,
                           TimeNs deadline)
    : transport_(transport),
      reactor_(reactor),
      options_(std::move(options)),
      deadline_(deadline),
      attempts_(options_.endpoints.size()),
      pause_until_(now) {
  R2CCL_CHECK(!options_.endpoints.empty());
}

bool SealedDialer::progress(TimeNs now) {
  // Each call stays in its state, goes on to a later one, or goes back to `pausing`.
  for (State before = State::closed; before != state_;) {
    before = state_;
    switch (state_) {
      case State::pausing:
        if (now < deadline_ && now >= pause_until_) dial(now);
        break;
      case State::connecting:
        check_connect(now);
        break;
      case State::shaking_hands:
        shake_hands(now);
        break;
      case State::connected:
      case State::closed:
        break;
    }
  }
  return state_ == State::connected;
}

TimeNs SealedDialer::next_timeout() const {
  switch (state_) {
    case State::pausing:
      return std::min(pause_until_, deadline_);
    case State::connecting:
    case State::shaking_hands:
      return attempt_deadline_;
    case State::connected:
    case State::closed:
      return kNever;
  }
  return kNever;
}

void SealedDialer::watch_writes() {
  if (handshake_ != nullptr) registration_.want_write(handshake_->wants_write());
  if (stream_ != nullptr) registration_.want_write(stream_->wants_write());
}

void SealedDialer::dial(TimeNs now) {
  state_ = State::connecting;
  // The bound grows with every round: a far or busy host needs more time, a dead address costs
  // less.
  attempt_deadline_ = std::min(deadline_, now + std::max(limits::kConnectAttempt, 4 * pause_));
  auto connection = transport_.connect(endpoint(), options_.connect);
  if (!connection.ok()) return end_attempt(connection.status(), false, now);
  connection_ = std::move(connection).value();
  auto added = reactor_.add(connection_->poll_id(), *this, true);
  if (!added.ok()) return end_attempt(added.status(), false, now);
  registration_ = std::move(added).value();
}

void SealedDialer::check_connect(TimeNs now) {
  switch (connection_->connect_state()) {
    case ConnectState::pending:
      if (now >= attempt_deadline_) {
        end_attempt({Code::timeout,
                     "no answer (is the address reachable from here, is a firewall in the way?)"},
                    false, now);
      }
      return;
    case ConnectState::failed: {
      const int error = connection_->connect_error();
      const Status why = system_error("connect", error);
      const std::string advice = options_.advice ? options_.advice(error, endpoint()) : "";
      return end_attempt({why.code(), why.message() + advice}, false, now);
    }
    case ConnectState::established:
      break;
  }
  handshake_ = std::make_unique<HandshakeIo>(std::move(connection_), options_.handshake());
  state_ = State::shaking_hands;
  attempt_deadline_ = std::min(deadline_, now + limits::kHandshakeAgeMax);
}

void SealedDialer::shake_hands(TimeNs now) {
  switch (handshake_->pump()) {
    case HandshakeIo::Progress::running:
      if (now >= attempt_deadline_) {
        end_attempt({Code::timeout, "connected, but no r2ccl answered"}, false, now);
      }
      return;
    case HandshakeIo::Progress::failed: {
      const Status why = handshake_->error();
      return end_attempt(why, why.code() == Code::invalid_usage, now);
    }
    case HandshakeIo::Progress::done:
      break;
  }
  auto stream = std::make_unique<SealedStream>(options_.body_bytes_max);
  stream->open(handshake_->take());
  stream_ = std::move(stream);
  handshake_.reset();
  attempts_[current_] = {};
  state_ = State::connected;
}

void SealedDialer::end_attempt(Status why, bool refused, TimeNs now) {
  drop();
  if (refused && !std::exchange(refusal_told_, true)) {
    R2CCL_LOG(warn, "%s: %s%s; this process dials again until its bound",
              to_string(endpoint()).c_str(), why.message().c_str(), kUnproven);
  }
  // A refusal in words says more than later attempts without an answer.
  Attempt& last = attempts_[current_];
  if (refused || !last.refused) last = {std::move(why), refused};
  state_ = State::pausing;
  pause_until_ = now;
  if (++current_ < attempts_.size()) return;
  current_ = 0;
  pause_ = std::clamp(2 * pause_, options_.pause_min, kPauseMax);
  pause_until_ = now + pause_;
}

void SealedDialer::dial_again(TimeNs now) {
  drop();
  state_ = State::pausing;
  pause_until_ = now;
}

void SealedDialer::close() {
  drop();
  state_ = State::closed;
}

void SealedDialer::drop() {
  registration_.reset();
  stream_.reset();
  handshake_.reset();
  connection_.reset();
}

std::string SealedDialer::errors() const {
  std::string text;
  for (size_t i = 0; i < attempts_.size(); ++i) {
    const auto& [error, refused] = attempts_[i];
    if (error.ok()) continue;
    text += (text.empty() ? "" : "; ") + to_string(options_.endpoints[i]) + ": " + error.message() +
            (refused ? kUnproven : "");
  }
  return text;
}

}  // namespace r2ccl
