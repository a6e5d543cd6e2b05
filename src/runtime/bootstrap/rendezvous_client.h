// One rank's way to the table of all ranks: finds the rendezvous, which may not listen yet, proves
// itself, hands in its card and waits for everybody else's.
//
// A state machine over a Reactor: call progress() after every Reactor::poll and at next_timeout().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/bootstrap/rendezvous_server.h"
#include "runtime/bootstrap/sealed_stream.h"
#include "runtime/connection/acceptor.h"
#include "runtime/connection/reactor.h"
#include "transport/transport.h"

namespace r2ccl {

// A rank knows this once all have met.
struct MetJob {
  std::vector<RankCard> cards;  // in rank order
  RunIdentity run;
};

class RendezvousClient final : public EventHandler {
 public:
  struct Options {
    JobIdentity job;
    std::vector<Endpoint> endpoints;  // of the rendezvous, tried in turn; not empty
    RankCard card;
    int32_t rank_count = 0;
    TimeNs timeout_ns = 0;  // all ranks must have arrived within this
    ConnectOptions connect;
    NonceSource nonce;
  };
  enum class State : uint8_t {
    pausing,        // no connection; the next attempt is at pause_until_
    connecting,     // `connection_` is set and pending
    shaking_hands,  // `handshake_` is set
    waiting,        // `stream_` is set; the card is on its way or there
    acknowledging,  // the table is here; the server closes when it knows
    done,           // cards() is legal
    failed,         // error() says why
  };

  // `transport` and `reactor` outlive the client.
  RendezvousClient(Transport& transport, Reactor& reactor, Options options, TimeNs now);

  void progress(TimeNs now);
  TimeNs next_timeout() const;
  State state() const { return state_; }
  const Status& error() const { return error_; }
  // In rank order.
  const std::vector<RankCard>& cards() const { return met_.cards; }
  const RunIdentity& run() const { return met_.run; }
  const MetJob& met() const { return met_; }

  void on_ready(const PollEvent&) override {}

 private:
  // What came of the last attempt at one endpoint.
  struct Attempt {
    Status error;
    bool refused = false;  // an r2ccl peer answered and said no for good
  };

  void start_attempt(TimeNs now);
  void end_attempt(Status why, bool refused, TimeNs now);
  void check_connect(TimeNs now);
  void shake_hands(TimeNs now);
  void arrive(TimeNs now);
  void wait_for_table(TimeNs now);
  void wait_for_close(TimeNs now);
  void on_message(const SealedStream::Message& message, TimeNs now);
  void on_table(std::span<const std::byte> body, TimeNs now);
  void give_up(TimeNs now);
  void close();
  void fail(Status why);
  const Endpoint& endpoint() const { return options_.endpoints[current_]; }

  Transport& transport_;
  Reactor& reactor_;
  const Options options_;
  const TimeNs deadline_;
  Attendance attendance_{};
  State state_ = State::pausing;
  std::vector<Attempt> attempts_;  // beside options_.endpoints
  size_t current_ = 0;
  TimeNs pause_ = 0;
  TimeNs pause_until_ = 0;
  TimeNs attempt_deadline_ = kNever;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<HandshakeIo> handshake_;
  std::unique_ptr<SealedStream> stream_;
  Reactor::Registration registration_;  // last: it must end before the connection does
  std::vector<std::byte> card_;         // this rank's, as it was sent
  LockedBytes token_;                   // once it has come
  MetJob met_;
  Status error_;
};

// Runs a client to its end on the calling thread, which is the only one to use `reactor`. What
// knocks at `acceptor` meanwhile, if it is given, is served.
Result<MetJob> run_rendezvous(Transport& transport, Reactor& reactor, const Clock& clock,
                              RendezvousClient::Options options, Acceptor* acceptor = nullptr);

}  // namespace r2ccl
