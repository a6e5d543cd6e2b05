// Asks a process for one connection: dials the addresses of its handle in turn, proves to have the
// handle, asks and opens its end by the answer. A connection that is lost meanwhile is dialled
// again, and the ask repeated.
//
// A state machine over a Reactor: call progress() after every poll and at next_timeout(). Driving
// thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "nccl/listen_handle.h"
#include "nccl/meeting_messages.h"
#include "protocol/wire/handshake.h"
#include "runtime/bootstrap/sealed_stream.h"
#include "runtime/connection/handshake_io.h"
#include "runtime/connection/reactor.h"
#include "transport/transport.h"

namespace r2ccl::nccl {

class MeetingClient final : public EventHandler {
 public:
  struct Opening {
    enum class Kind : uint8_t {
      open,   // this end is there
      wait,   // it is called again in the next pass
      again,  // the answer does not fit any more: ask once more
      failed  // for `why`
    };
    Kind kind = Kind::open;
    Status why = {};
  };
  struct Callbacks {
    // Returns the ask; it is called for each dial, because the link may be another one by then.
    std::function<Result<Ask>()> ask;
    // Opens this end.
    std::function<Opening(const Answer&)> on_answer;
    // The link of the last ask has ended at the other end.
    std::function<void()> on_gone;
    std::function<std::array<std::byte, kNonceBytes>()> nonce;
  };
  enum class State : uint8_t {
    pausing,        // no connection; the next attempt is at pause_until_
    connecting,     // `connection_` is set and pending
    shaking_hands,  // `handshake_` is set
    asking,         // `stream_` is set, as in the next two
    answered,       // `answer_` is set
    opened,         // this end is there
    done,
    failed,  // error() gives the reason
  };

  // `job`: as the handle names it, with this process's secret mixed in. Gives up `timeout` after
  // `now`. Both references must outlive this.
  MeetingClient(Transport& transport, Reactor& reactor, ListenHandle handle, JobIdentity job,
                Callbacks callbacks, TimeNs now, TimeNs timeout);

  void progress(TimeNs now);
  TimeNs next_timeout() const;
  State state() const { return state_; }
  const Status& error() const { return error_; }
  const ListenHandle& handle() const { return handle_; }

  void on_ready(const PollEvent&) override {}

 private:
  void dial(TimeNs now);
  void check_connect(TimeNs now);
  void shake_hands(TimeNs now);
  void converse(TimeNs now);
  void on_message(const SealedStream::Message& message, TimeNs now);
  void open_end(TimeNs now);
  void end_attempt(Status why, TimeNs now);
  void close();
  void fail(Status why);

  Transport& transport_;
  Reactor& reactor_;
  const ListenHandle handle_;
  const JobIdentity job_;
  const Callbacks callbacks_;
  const TimeNs timeout_;
  const TimeNs deadline_;
  State state_ = State::pausing;
  size_t current_ = 0;  // index in the handle's endpoints
  TimeNs pause_ = 0;
  TimeNs pause_until_ = 0;
  TimeNs attempt_deadline_ = kNever;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<HandshakeIo> handshake_;
  std::unique_ptr<SealedStream> stream_;
  Reactor::Registration registration_;  // after the connection: it must end before that does
  std::optional<Answer> answer_;
  Status last_error_;
  Status error_;
};

}  // namespace r2ccl::nccl
