#include "nccl/meeting_client.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/config/duration_text.h"

namespace r2ccl::nccl {
namespace {

constexpr TimeNs kPauseMin = 10 * kMillisecond;
constexpr TimeNs kPauseMax = 250 * kMillisecond;
// An ask may wait for the meeting in the other direction.
constexpr TimeNs kAnswerWait = 10 * kSecond;
constexpr TimeNs kWaitForLink = 1 * kMillisecond;

}  // namespace

MeetingClient::MeetingClient(Transport& transport, Reactor& reactor, ListenHandle handle,
                             JobIdentity job, Callbacks callbacks, TimeNs now, TimeNs timeout)
    : transport_(transport),
      reactor_(reactor),
      handle_(std::move(handle)),
      job_(std::move(job)),
      callbacks_(std::move(callbacks)),
      timeout_(timeout),
      deadline_(now + timeout),
      pause_until_(now) {
  R2CCL_CHECK(!handle_.endpoints.empty());
}

void MeetingClient::progress(TimeNs now) {
  // Each call stays in its state, goes on to a later one, or goes back to `pausing`.
  for (State before = State::failed; before != state_;) {
    before = state_;
    switch (state_) {
      case State::pausing:
        if (now >= deadline_) {
          fail({Code::timeout, "cannot connect to " + to_string(handle_.endpoints[current_]) +
                                   " within " + duration_text(timeout_) + ": " +
                                   last_error_.message()});
        } else if (now >= pause_until_) {
          dial(now);
        }
        break;
      case State::connecting:
        check_connect(now);
        break;
      case State::shaking_hands:
        shake_hands(now);
        break;
      case State::asking:
      case State::answered:
      case State::opened:
        converse(now);
        break;
      case State::done:
      case State::failed:
        break;
    }
  }
  if (handshake_ != nullptr) registration_.want_write(handshake_->wants_write());
  if (stream_ != nullptr) registration_.want_write(stream_->wants_write());
}

TimeNs MeetingClient::next_timeout() const {
  switch (state_) {
    case State::pausing:
      return std::min(pause_until_, deadline_);
    case State::connecting:
    case State::shaking_hands:
    case State::asking:
    case State::opened:
      return attempt_deadline_;
    case State::answered:
      return pause_until_;
    case State::done:
    case State::failed:
      return kNever;
  }
  return kNever;
}

void MeetingClient::dial(TimeNs now) {
  state_ = State::connecting;
  // The bound grows with every round: a far or busy host needs more time, a dead address costs
  // less.
  attempt_deadline_ = std::min(deadline_, now + std::max(limits::kConnectAttempt, 4 * pause_));
  auto connection = transport_.connect(handle_.endpoints[current_], {});
  if (!connection.ok()) return end_attempt(connection.status(), now);
  connection_ = std::move(connection).value();
  auto added = reactor_.add(connection_->poll_id(), *this, true);
  if (!added.ok()) return end_attempt(added.status(), now);
  registration_ = std::move(added).value();
}

void MeetingClient::check_connect(TimeNs now) {
  switch (connection_->connect_state()) {
    case ConnectState::pending:
      if (now >= attempt_deadline_) end_attempt({Code::timeout, "no answer"}, now);
      return;
    case ConnectState::failed:
      return end_attempt(system_error("connect", connection_->connect_error()), now);
    case ConnectState::established:
      break;
  }
  handshake_ = std::make_unique<HandshakeIo>(
      std::move(connection_), make_rendezvous_initiator(job_, Rank(0), callbacks_.nonce()));
  state_ = State::shaking_hands;
  attempt_deadline_ = std::min(deadline_, now + limits::kHandshakeAgeMax);
}

void MeetingClient::shake_hands(TimeNs now) {
  switch (handshake_->pump()) {
    case HandshakeIo::Progress::running:
      if (now >= attempt_deadline_) {
        end_attempt({Code::timeout, "connected, but no r2ccl answered"}, now);
      }
      return;
    case HandshakeIo::Progress::failed:
      return end_attempt(handshake_->error(), now);
    case HandshakeIo::Progress::done:
      break;
  }
  const auto ask = callbacks_.ask();
  if (!ask.ok()) return fail(ask.status());
  auto body = encode(ask.value());
  if (!body.ok()) return fail(body.status());
  auto stream = std::make_unique<SealedStream>(kMeetingBytesMax);
  stream->open(handshake_->take());
  stream_ = std::move(stream);
  handshake_.reset();
  stream_->send(type_of(MeetingMessage::ask),
                std::make_shared<const std::vector<std::byte>>(std::move(body).value()));
  state_ = State::asking;
  attempt_deadline_ = std::min(deadline_, now + kAnswerWait);
}

void MeetingClient::converse(TimeNs now) {
  const State begun = state_;
  const Status status = stream_->pump();
  while (const auto message = stream_->next()) {
    on_message(*message, now);
    if (stream_ == nullptr) return;
  }
  if (!status.ok()) return end_attempt(status, now);
  if (state_ == State::answered && (begun != state_ || now >= pause_until_)) return open_end(now);
  if (now >= attempt_deadline_) end_attempt({Code::timeout, "no answer to a connect"}, now);
}

void MeetingClient::on_message(const SealedStream::Message& message, TimeNs now) {
  const bool waits = state_ == State::asking || state_ == State::opened;
  if (message.type == type_of(MeetingMessage::refused) && waits) {
    return fail(decode_refused(message.body));
  }
  if (message.type == type_of(MeetingMessage::gone) && state_ == State::asking) {
    callbacks_.on_gone();
    close();
    state_ = State::pausing;
    pause_until_ = now;
    return;
  }
  if (message.type == type_of(MeetingMessage::answer) && state_ == State::asking) {
    auto answer = decode_answer(message.body);
    if (!answer.ok()) return end_attempt(answer.status(), now);
    answer_ = std::move(answer).value();
    state_ = State::answered;
    return;
  }
  if (message.type == type_of(MeetingMessage::ready) && state_ == State::opened) {
    close();
    state_ = State::done;
    return;
  }
  end_attempt({Code::remote, "unexpected message from a listener"}, now);
}

void MeetingClient::open_end(TimeNs now) {
  const Opening opening = callbacks_.on_answer(*answer_);
  switch (opening.kind) {
    case Opening::Kind::failed:
      return fail(opening.why);
    case Opening::Kind::again:
      return end_attempt({Code::remote, "the link has ended meanwhile"}, now);
    case Opening::Kind::wait:
      pause_until_ = now + kWaitForLink;
      if (now >= attempt_deadline_) end_attempt({Code::timeout, "the link is not there"}, now);
      return;
    case Opening::Kind::open:
      stream_->send(type_of(MeetingMessage::opened), no_body());
      state_ = State::opened;
      attempt_deadline_ = std::min(deadline_, now + kAnswerWait);
      return;
  }
}

void MeetingClient::end_attempt(Status why, TimeNs now) {
  close();
  last_error_ = std::move(why);
  state_ = State::pausing;
  pause_until_ = now;
  if (++current_ < handle_.endpoints.size()) return;
  current_ = 0;
  pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
  pause_until_ = now + pause_;
}

void MeetingClient::close() {
  registration_.reset();
  stream_.reset();
  handshake_.reset();
  connection_.reset();
}

void MeetingClient::fail(Status why) {
  close();
  error_ = std::move(why);
  state_ = State::failed;
}

}  // namespace r2ccl::nccl
