// Opens a sealed stream to a listener: dials its addresses in turn, with pauses that grow after
// each round, until one shakes hands. When the caller ends an attempt, the next address is dialled.
//
// A state machine over a Reactor: call progress() after every poll and at next_timeout().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/wire/handshake.h"
#include "runtime/connection/handshake_io.h"
#include "runtime/connection/reactor.h"
#include "runtime/connection/sealed_stream.h"
#include "transport/transport.h"

namespace r2ccl {

class SealedDialer final : private EventHandler {
 public:
  struct Options {
    std::vector<Endpoint> endpoints;  // the listener's, not empty
    ConnectOptions connect;
    // Returns this end's handshake, for each attempt.
    std::function<std::unique_ptr<Handshake>()> handshake;
    uint32_t body_bytes_max = 0;  // the largest message that the stream takes
    TimeNs pause_min = 0;         // between the first two rounds
    // May be empty. Returns advice to a person on a connect that failed with that errno.
    std::function<std::string(int error, const Endpoint& to)> advice;
  };

  // Gives up at `deadline`. Both references must outlive this.
  SealedDialer(Transport& transport, Reactor& reactor, Options options, TimeNs now,
               TimeNs deadline);

  // Goes on with the dial. Returns whether the stream is there, which stays until the caller ends
  // the attempt or closes.
  bool progress(TimeNs now);
  // Returns kNever while the stream is there.
  TimeNs next_timeout() const;
  // Returns whether the deadline has passed without a stream.
  bool given_up(TimeNs now) const { return state_ == State::pausing && now >= deadline_; }
  // Requires that it is there.
  SealedStream& stream() {
    R2CCL_CHECK(stream_ != nullptr);
    return *stream_;
  }
  // Call it at the end of each pass, after the last message was sent.
  void watch_writes();

  // The address that is dialled, or has been.
  const Endpoint& endpoint() const { return options_.endpoints[current_]; }
  // Ends the attempt, so the next address is dialled.
  void end_attempt(Status why, TimeNs now) { end_attempt(std::move(why), false, now); }
  // Dials the same address again, at once.
  void dial_again(TimeNs now);
  // Closes the stream, and dials no more.
  void close();

  // Returns the last error of each address, or the last refusal: "10.0.0.1:5000: no answer; ...".
  // Empty when no attempt has failed.
  std::string errors() const;

 private:
  enum class State : uint8_t {
    pausing,        // no connection; the next attempt is at pause_until_
    connecting,     // `connection_` is set and pending
    shaking_hands,  // `handshake_` is set
    connected,      // `stream_` is set
    closed,
  };
  // The result of the last attempt at one endpoint, or of the last one that was refused.
  struct Attempt {
    Status error;
    // The handshake failed with a reason in words. The peer has proved nothing: it may be a
    // stranger who holds the port until the listener comes, or another job's. So this is a hint
    // for the final error.
    bool refused = false;
  };

  void dial(TimeNs now);
  void check_connect(TimeNs now);
  void shake_hands(TimeNs now);
  void end_attempt(Status why, bool refused, TimeNs now);
  void drop();
  void on_ready(const PollEvent&) override {}

  Transport& transport_;
  Reactor& reactor_;
  const Options options_;
  const TimeNs deadline_;
  State state_ = State::pausing;
  std::vector<Attempt> attempts_;  // parallel to options_.endpoints
  size_t current_ = 0;             // among them
  TimeNs pause_ = 0;
  TimeNs pause_until_ = 0;
  TimeNs attempt_deadline_ = kNever;
  bool refusal_told_ = false;  // to the log
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<HandshakeIo> handshake_;
  std::unique_ptr<SealedStream> stream_;
  Reactor::Registration registration_;  // last: it must end before the connection does
};

}  // namespace r2ccl
