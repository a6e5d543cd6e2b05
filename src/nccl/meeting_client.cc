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
// An ask may wait for the meeting in the other direction.
constexpr TimeNs kAnswerWait = 10 * kSecond;
constexpr TimeNs kWaitForLink = 1 * kMillisecond;

}  // namespace

MeetingClient::MeetingClient(Transport& transport, Reactor& reactor, ListenHandle handle,
                             JobIdentity job, Callbacks callbacks, TimeNs now, TimeNs timeout)
    : callbacks_(std::move(callbacks)),
      timeout_(timeout),
      deadline_(now + timeout),
      dialer_(transport, reactor, dial_options(std::move(handle), std::move(job)), now, deadline_) {
}

SealedDialer::Options MeetingClient::dial_options(ListenHandle handle, JobIdentity job) const {
  SealedDialer::Options options;
  options.endpoints = std::move(handle.endpoints);
  options.handshake = [this, job = std::move(job)] {
    return make_rendezvous_initiator(job, Rank(0), callbacks_.nonce());
  };
  options.body_bytes_max = kMeetingBytesMax;
  options.pause_min = kPauseMin;
  return options;
}

void MeetingClient::progress(TimeNs now) {
  // Each call stays in its state, goes on to a later one, or goes back to `dialing`.
  for (State before = State::failed; before != state_;) {
    before = state_;
    switch (state_) {
      case State::dialing:
        dial(now);
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
  dialer_.watch_writes();
}

TimeNs MeetingClient::next_timeout() const {
  switch (state_) {
    case State::dialing:
      return dialer_.next_timeout();
    case State::asking:
    case State::opened:
      return answer_deadline_;
    case State::answered:
      return look_at_;
    case State::done:
    case State::failed:
      return kNever;
  }
  return kNever;
}

void MeetingClient::dial(TimeNs now) {
  if (dialer_.progress(now)) return ask(now);
  if (!dialer_.given_up(now)) return;
  const std::string errors = dialer_.errors();
  fail({Code::timeout, "cannot connect to " + to_string(dialer_.endpoint()) + " within " +
                           duration_text(timeout_) + (errors.empty() ? "" : ": " + errors)});
}

void MeetingClient::ask(TimeNs now) {
  const auto ask = callbacks_.ask();
  if (!ask.ok()) return fail(ask.status());
  auto body = encode(ask.value());
  if (!body.ok()) return fail(body.status());
  dialer_.stream().send(type_of(MeetingMessage::ask),
                        std::make_shared<const std::vector<std::byte>>(std::move(body).value()));
  state_ = State::asking;
  answer_deadline_ = std::min(deadline_, now + kAnswerWait);
}

void MeetingClient::converse(TimeNs now) {
  const State begun = state_;
  const Status status = dialer_.stream().pump();
  while (const auto message = dialer_.stream().next()) {
    on_message(*message, now);
    if (!conversing()) return;
  }
  if (!status.ok()) return end_attempt(status, now);
  if (state_ == State::answered && (begun != state_ || now >= look_at_)) return open_end(now);
  if (now >= answer_deadline_) end_attempt({Code::timeout, "no answer to a connect"}, now);
}

void MeetingClient::on_message(const SealedStream::Message& message, TimeNs now) {
  const bool waits = state_ == State::asking || state_ == State::opened;
  if (message.type == type_of(MeetingMessage::refused) && waits) {
    return fail(decode_refused(message.body));
  }
  if (message.type == type_of(MeetingMessage::gone) && state_ == State::asking) {
    callbacks_.on_gone();
    state_ = State::dialing;
    return dialer_.dial_again(now);
  }
  if (message.type == type_of(MeetingMessage::answer) && state_ == State::asking) {
    auto answer = decode_answer(message.body);
    if (!answer.ok()) return end_attempt(answer.status(), now);
    answer_ = std::move(answer).value();
    state_ = State::answered;
    return;
  }
  if (message.type == type_of(MeetingMessage::ready) && state_ == State::opened) {
    dialer_.close();
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
      look_at_ = now + kWaitForLink;
      if (now >= answer_deadline_) end_attempt({Code::timeout, "the link is not there"}, now);
      return;
    case Opening::Kind::open:
      dialer_.stream().send(type_of(MeetingMessage::opened), no_body());
      state_ = State::opened;
      answer_deadline_ = std::min(deadline_, now + kAnswerWait);
      return;
  }
}

void MeetingClient::end_attempt(Status why, TimeNs now) {
  state_ = State::dialing;
  dialer_.end_attempt(std::move(why), now);
}

void MeetingClient::fail(Status why) {
  dialer_.close();
  error_ = std::move(why);
  state_ = State::failed;
}

}  // namespace r2ccl::nccl
