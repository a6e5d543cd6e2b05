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
// The server names the missing ranks when the bound passes. The client waits this much longer for
// its answer.
constexpr TimeNs kLastWords = 2 * kSecond;
constexpr TimeNs kCloseWait = 1 * kSecond;
// A wait that may be in vain asks so often whether it is.
constexpr TimeNs kInVainInterval = 50 * kMillisecond;

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
    : options_(std::move(options)),
      deadline_(now + options_.timeout_ns),
      dialer_(transport, reactor,
              {options_.endpoints, options_.connect,
               [this] {
                 return make_rendezvous_initiator(options_.job, options_.info.rank,
                                                  options_.nonce());
               },
               table_bytes_max(options_.rank_count), kPauseMin, advice},
              now, deadline_) {
  const auto random = options_.nonce();
  std::copy_n(random.begin(), attendance_.size(), attendance_.begin());
}

void RendezvousClient::progress(TimeNs now) {
  // Each call stays in its state, goes on to a later one, or goes back to `dialing`.
  for (State before = State::failed; before != state_;) {
    before = state_;
    switch (state_) {
      case State::dialing:
        dial(now);
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
  dialer_.watch_writes();
}

TimeNs RendezvousClient::next_timeout() const {
  switch (state_) {
    case State::dialing:
      return dialer_.next_timeout();
    case State::waiting:
    case State::acknowledging:
    case State::joined:
      return answer_deadline_;
    case State::done:
    case State::failed:
      return kNever;
  }
  return kNever;
}

void RendezvousClient::dial(TimeNs now) {
  if (dialer_.progress(now)) return arrive(now);
  if (!dialer_.given_up(now)) return;
  const std::string errors = dialer_.errors();
  fail({Code::timeout, "cannot reach the rendezvous within " + duration_text(options_.timeout_ns) +
                           (errors.empty() ? "" : ": " + errors)});
}

void RendezvousClient::end_attempt(Status why, TimeNs now) {
  token_ = {};
  state_ = State::dialing;
  dialer_.end_attempt(std::move(why), now);
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
  dialer_.stream().send(type_of(RendezvousMessage::arrive),
                        std::make_shared<std::vector<std::byte>>(encode(arrival)));
  state_ = State::waiting;
  answer_deadline_ = deadline_ + kLastWords;
}

void RendezvousClient::wait_for_table(TimeNs now) {
  const Status status = dialer_.stream().pump();
  while (const auto message = dialer_.stream().next()) {
    on_message(*message, now);
    if (state_ != State::waiting) return;
  }
  if (!status.ok()) return end_attempt(status, now);
  if (now >= answer_deadline_) {
    fail({Code::timeout, "the rendezvous at " + to_string(dialer_.endpoint()) +
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
  end_attempt({Code::remote, "unexpected message from the rendezvous"}, now);
}

void RendezvousClient::on_table(std::span<const std::byte> body, TimeNs now) {
  Result<std::vector<RankInfo>> rank_table = decode_table(body, options_.rank_count);
  if (!rank_table.ok()) return fail(rank_table.status());
  met_.rank_table = std::move(rank_table).value();
  const auto mine = encode(met_.rank_table[static_cast<size_t>(options_.info.rank.value())]);
  if (!mine.ok() || mine.value() != info_) {
    return fail({Code::remote, "the rendezvous at " + to_string(dialer_.endpoint()) +
                                   " tells the ranks something else of this rank than it said: "
                                   "is it the one of this job?"});
  }
  met_.run = make_run_identity(options_.job, token_, body);
  const auto joined = options_.on_met ? options_.on_met(met_) : Result<bool>(false);
  if (!joined.ok()) return fail(joined.status());
  const auto answer = joined.value() ? RendezvousMessage::joined : RendezvousMessage::received;
  dialer_.stream().send(type_of(answer), std::make_shared<std::vector<std::byte>>());
  state_ = joined.value() ? State::joined : State::acknowledging;
  answer_deadline_ = joined.value() ? deadline_ + kLastWords : now + kCloseWait;
}

// Closing first could discard the acknowledgement. If the server has vanished, the table is valid
// all the same.
void RendezvousClient::wait_for_close(TimeNs now) {
  const Status status = dialer_.stream().pump();
  if (status.ok() && now < answer_deadline_) return;
  finish();
}

// A rank that called before another one has joined would wait for it without a bound.
void RendezvousClient::wait_for_all(TimeNs now) {
  const Status status = dialer_.stream().pump();
  while (const auto message = dialer_.stream().next()) {
    if (message->type == type_of(RendezvousMessage::all_joined)) {
      finish();
      return;
    }
    return end_attempt({Code::remote, "unexpected message from the rendezvous"}, now);
  }
  if (!status.ok()) return end_attempt(status, now);
  if (now >= answer_deadline_) {
    fail({Code::timeout, "some rank has met the others and has not joined them within " +
                             duration_text(options_.timeout_ns) + ": is it stopped?"});
  }
}

void RendezvousClient::finish() {
  token_ = {};
  dialer_.close();
  state_ = State::done;
}

void RendezvousClient::fail(Status why) {
  finish();
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
