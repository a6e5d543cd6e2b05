#include "runtime/bootstrap/rendezvous_client.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/config/duration_text.h"

namespace r2ccl {
namespace {

constexpr TimeNs kPauseMin = 50 * kMillisecond;
constexpr TimeNs kPauseMax = 250 * kMillisecond;
// The server names the missing ranks when the bound passes. The client waits this much longer for
// its answer.
constexpr TimeNs kLastWords = 2 * kSecond;
constexpr TimeNs kCloseWait = 1 * kSecond;
// A wait that may be in vain asks so often whether it is.
constexpr TimeNs kInVainInterval = 50 * kMillisecond;

constexpr const char* kUnproven = " (this peer has not proved that it belongs to this job)";

std::string advice(int connect_error, const Endpoint& to) {
  switch (connect_error) {
    case ECONNREFUSED:
      if (is_loopback(to.address)) {
        return " (nothing listens there: does rank 0, or the process that made the unique id, run "
               "on this host? If not, the ranks must meet at an address that all hosts reach)";
      }
      return " (nothing listens there: does the process that made the unique id, usually rank 0, "
             "still run, and has its id been used within R2CCL_INIT_TIMEOUT_S?)";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return " (no route: name an interface that both hosts share in R2CCL_OOB_IFNAME)";
    default:
      return "";
  }
}

}  // namespace

RendezvousClient::RendezvousClient(Transport& transport, Reactor& reactor, Options options,
                                   TimeNs now)
    : transport_(transport),
      reactor_(reactor),
      options_(std::move(options)),
      deadline_(now + options_.timeout_ns),
      attempts_(options_.endpoints.size()),
      pause_until_(now) {
  R2CCL_CHECK(!options_.endpoints.empty());
  const auto random = options_.nonce();
  std::copy_n(random.begin(), attendance_.size(), attendance_.begin());
}

void RendezvousClient::progress(TimeNs now) {
  // Each call stays in its state, goes on to a later one, or goes back to `pausing`.
  for (State before = State::failed; before != state_;) {
    before = state_;
    switch (state_) {
      case State::pausing:
        if (now >= deadline_)
          give_up();
        else if (now >= pause_until_)
          start_attempt(now);
        break;
      case State::connecting:
        check_connect(now);
        break;
      case State::shaking_hands:
        shake_hands(now);
        break;
      case State::waiting:
        wait_for_table(now);
        break;
      case State::acknowledging:
        wait_for_close(now);
        break;
      case State::joined:
        wait_for_all(now);
        break;
      case State::done:
      case State::failed:
        break;
    }
  }
  if (handshake_ != nullptr) registration_.want_write(handshake_->wants_write());
  if (stream_ != nullptr) registration_.want_write(stream_->wants_write());
}

TimeNs RendezvousClient::next_timeout() const {
  switch (state_) {
    case State::pausing:
      return std::min(pause_until_, deadline_);
    case State::connecting:
    case State::shaking_hands:
    case State::waiting:
    case State::acknowledging:
    case State::joined:
      return attempt_deadline_;
    case State::done:
    case State::failed:
      return kNever;
  }
  return kNever;
}

void RendezvousClient::start_attempt(TimeNs now) {
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

void RendezvousClient::end_attempt(Status why, bool refused, TimeNs now) {
  close();
  if (refused && !std::exchange(refusal_told_, true)) {
    R2CCL_LOG(warn, "rendezvous: %s: %s%s; asks again until the bound of the start",
              to_string(endpoint()).c_str(), why.message().c_str(), kUnproven);
  }
  // A refusal in words says more than the later attempts that find nobody.
  Attempt& last = attempts_[current_];
  if (refused || !last.refused) last = {std::move(why), refused};
  state_ = State::pausing;
  pause_until_ = now;
  if (++current_ < attempts_.size()) return;
  current_ = 0;
  pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
  pause_until_ = now + pause_;
}

void RendezvousClient::check_connect(TimeNs now) {
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
      Status why = system_error("connect", error);
      return end_attempt({why.code(), why.message() + advice(error, endpoint())}, false, now);
    }
    case ConnectState::established:
      break;
  }
  handshake_ = std::make_unique<HandshakeIo>(
      std::move(connection_),
      make_rendezvous_initiator(options_.job, options_.info.rank, options_.nonce()));
  state_ = State::shaking_hands;
  attempt_deadline_ = std::min(deadline_, now + limits::kHandshakeAgeMax);
}

void RendezvousClient::shake_hands(TimeNs now) {
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
      arrive(now);
      return;
  }
}

void RendezvousClient::arrive(TimeNs now) {
  Arrival arrival;
  arrival.rank_count = options_.rank_count;
  arrival.attendance = attendance_;
  arrival.timeout_ms = bounded_ms(options_.timeout_ns);
  arrival.left_ms = bounded_ms(deadline_ - now);
  Result<std::vector<std::byte>> info = encode(options_.info);
  if (!info.ok()) return fail(info.status());
  info_ = std::move(info).value();
  arrival.info = info_;
  auto stream = std::make_unique<SealedStream>(table_bytes_max(options_.rank_count));
  stream->open(handshake_->take());
  stream_ = std::move(stream);
  handshake_.reset();
  stream_->send(type_of(RendezvousMessage::arrive),
                std::make_shared<std::vector<std::byte>>(encode(arrival)));
  state_ = State::waiting;
  attempt_deadline_ = deadline_ + kLastWords;
}

void RendezvousClient::wait_for_table(TimeNs now) {
  const Status status = stream_->pump();
  while (const auto message = stream_->next()) {
    on_message(*message, now);
    if (state_ != State::waiting) return;
  }
  if (!status.ok()) return end_attempt(status, false, now);
  if (now >= attempt_deadline_) {
    fail({Code::timeout, "the rendezvous at " + to_string(endpoint()) +
                             " accepted this rank's info and did not answer within " +
                             duration_text(options_.timeout_ns) +
                             ": is the process that made the "
                             "unique id, usually rank 0, stopped?"});
  }
}

void RendezvousClient::on_message(const SealedStream::Message& message, TimeNs now) {
  const bool has_token = !token_.empty();
  if (message.type == type_of(RendezvousMessage::refused)) {
    return fail(decode_refused(message.body));
  }
  if (message.type == type_of(RendezvousMessage::table) && has_token) {
    return on_table(message.body, now);
  }
  if (message.type == type_of(RendezvousMessage::token) && !has_token &&
      message.body.size() == kRunTokenBytes) {
    token_ = LockedBytes::copy_of(message.body);
    return;
  }
  end_attempt({Code::remote, "unexpected message from the rendezvous"}, false, now);
}

void RendezvousClient::on_table(std::span<const std::byte> body, TimeNs now) {
  Result<std::vector<RankInfo>> rank_table = decode_table(body, options_.rank_count);
  if (!rank_table.ok()) return fail(rank_table.status());
  met_.rank_table = std::move(rank_table).value();
  const auto mine = encode(met_.rank_table[static_cast<size_t>(options_.info.rank.value())]);
  if (!mine.ok() || mine.value() != info_) {
    return fail({Code::remote, "the rendezvous at " + to_string(endpoint()) +
                                   " tells the ranks something else of this rank than it said: "
                                   "is it the one of this job?"});
  }
  met_.run = make_run_identity(options_.job, token_, body);
  const auto joined = options_.on_met ? options_.on_met(met_) : Result<bool>(false);
  if (!joined.ok()) return fail(joined.status());
  const auto answer = joined.value() ? RendezvousMessage::joined : RendezvousMessage::received;
  stream_->send(type_of(answer), std::make_shared<std::vector<std::byte>>());
  state_ = joined.value() ? State::joined : State::acknowledging;
  attempt_deadline_ = joined.value() ? deadline_ + kLastWords : now + kCloseWait;
}

// Closing first could discard the acknowledgement. If the server has vanished, the table is valid
// all the same.
void RendezvousClient::wait_for_close(TimeNs now) {
  const Status status = stream_->pump();
  if (status.ok() && now < attempt_deadline_) return;
  close();
  state_ = State::done;
}

// A rank that called before another one has joined would wait for it without a bound.
void RendezvousClient::wait_for_all(TimeNs now) {
  const Status status = stream_->pump();
  while (const auto message = stream_->next()) {
    if (message->type == type_of(RendezvousMessage::all_joined)) {
      close();
      state_ = State::done;
      return;
    }
    return end_attempt({Code::remote, "unexpected message from the rendezvous"}, false, now);
  }
  if (!status.ok()) return end_attempt(status, false, now);
  if (now >= attempt_deadline_) {
    fail({Code::timeout, "some rank has met the others and has not joined them within " +
                             duration_text(options_.timeout_ns) + ": is it stopped?"});
  }
}

void RendezvousClient::give_up() {
  std::string text = "cannot reach the rendezvous within " + duration_text(options_.timeout_ns);
  for (size_t i = 0; i < attempts_.size(); ++i) {
    if (attempts_[i].error.ok()) continue;
    text += (i == 0 ? ": " : "; ") + to_string(options_.endpoints[i]) + ": " +
            attempts_[i].error.message() + (attempts_[i].refused ? kUnproven : "");
  }
  fail({Code::timeout, text});
}

void RendezvousClient::close() {
  token_ = {};
  registration_.reset();
  stream_.reset();
  handshake_.reset();
  connection_.reset();
}

void RendezvousClient::fail(Status why) {
  close();
  error_ = std::move(why);
  state_ = State::failed;
}

Result<MetJob> run_rendezvous(Transport& transport, Reactor& reactor, const Clock& clock,
                              RendezvousClient::Options options, Acceptor* acceptor,
                              const std::function<Status()>& in_vain) {
  RendezvousClient client(transport, reactor, std::move(options), clock.now());
  for (;;) {
    client.progress(clock.now());
    if (client.state() == RendezvousClient::State::done) return client.met();
    if (client.state() == RendezvousClient::State::failed) return client.error();
    TimeNs at = client.next_timeout();
    if (acceptor != nullptr) {
      acceptor->progress(clock.now());
      at = std::min(at, acceptor->next_timeout());
    }
    if (in_vain) {
      R2CCL_RETURN_IF_ERROR(in_vain());
      at = std::min(at, clock.now() + kInVainInterval);
    }
    reactor.poll(at == kNever ? kNever : std::max<TimeNs>(0, at - clock.now()));
  }
}

}  // namespace r2ccl
