// Joins one rank to the job: finds the rendezvous, which may not listen yet, authenticates itself,
// sends its rank info and waits for the table of all ranks.
//
// A state machine over a Reactor: call progress() after every Reactor::poll and at next_timeout().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/bootstrap/rendezvous_server.h"
#include "runtime/connection/acceptor.h"
#include "runtime/connection/reactor.h"
#include "runtime/connection/sealed_dialer.h"
#include "transport/transport.h"

namespace r2ccl {

// The result of the rendezvous for one rank.
struct MetJob {
  std::vector<RankInfo> rank_table;  // in rank order
  RunIdentity run;
};

class RendezvousClient final {
 public:
  struct Options {
    JobIdentity job;
    std::vector<Endpoint> endpoints;  // addresses of the rendezvous, tried in turn; not empty
    RankInfo info;
    int32_t rank_count = 0;
    TimeNs timeout_ns = 0;  // all ranks must arrive within this
    ConnectOptions connect;
    NonceSource nonce;
    // Told who the ranks are. Returns whether this rank has joined them, over links that are there:
    // then it waits until all have. May be called again, if the connection is lost meanwhile. None:
    // the rank joins them later.
    std::function<Result<bool>(const MetJob&)> on_met;
  };
  enum class State : uint8_t {
    dialing,        // no stream
    waiting,        // the rank info is being sent, or has arrived
    acknowledging,  // the table has arrived; the server closes when it has the acknowledgement
    joined,         // the table has arrived; the server tells when all ranks have joined
    done,           // rank_table() is legal
    failed,         // error() gives the reason
  };

  // Requires that `transport` and `reactor` outlive the client.
  RendezvousClient(Transport& transport, Reactor& reactor, Options options, TimeNs now);

  void progress(TimeNs now);
  TimeNs next_timeout() const;
  State state() const { return state_; }
  const Status& error() const { return error_; }
  // In rank order.
  const std::vector<RankInfo>& rank_table() const { return met_.rank_table; }
  const RunIdentity& run() const { return met_.run; }
  const MetJob& met() const { return met_; }

 private:
  void dial(TimeNs now);
  void end_attempt(Status why, TimeNs now);
  void arrive(TimeNs now);
  void wait_for_table(TimeNs now);
  void wait_for_close(TimeNs now);
  void wait_for_all(TimeNs now);
  void on_message(const SealedStream::Message& message, TimeNs now);
  void on_table(std::span<const std::byte> body, TimeNs now);
  void finish();
  void fail(Status why);

  const Options options_;
  const TimeNs deadline_;
  SealedDialer dialer_;
  Attendance attendance_{};
  State state_ = State::dialing;
  TimeNs answer_deadline_ = kNever;
  std::vector<std::byte> info_;  // this rank's info, as sent
  LockedBytes token_;            // set once it has arrived
  MetJob met_;
  Status error_;
};

// Runs a client to its end on the calling thread, which alone uses `reactor`. Meanwhile it serves
// the connections to `acceptor`, if that is given. Gives up when `in_vain`, if given, returns an
// error, which it then returns.
Result<MetJob> run_rendezvous(Transport& transport, Reactor& reactor, const Clock& clock,
                              RendezvousClient::Options options, Acceptor* acceptor = nullptr,
                              const std::function<Status()>& in_vain = {});

}  // namespace r2ccl
