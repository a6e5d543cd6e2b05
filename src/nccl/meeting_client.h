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
#include "runtime/connection/reactor.h"
#include "runtime/connection/sealed_dialer.h"
#include "transport/transport.h"

namespace r2ccl::nccl {

class MeetingClient final {
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
    dialing,   // no stream
    asking,    // the other process has the ask, or gets it
    answered,  // `answer_` is set
    opened,    // this end is there
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

 private:
  SealedDialer::Options dial_options(ListenHandle handle, JobIdentity job) const;
  bool conversing() const {
    return state_ == State::asking || state_ == State::answered || state_ == State::opened;
  }
  void dial(TimeNs now);
  void ask(TimeNs now);
  void converse(TimeNs now);
  void on_message(const SealedStream::Message& message, TimeNs now);
  void open_end(TimeNs now);
  void end_attempt(Status why, TimeNs now);
  void fail(Status why);

  const Callbacks callbacks_;
  const TimeNs timeout_;
  const TimeNs deadline_;
  SealedDialer dialer_;
  State state_ = State::dialing;
  TimeNs look_at_ = 0;  // the link may be there
  TimeNs answer_deadline_ = kNever;
  std::optional<Answer> answer_;
  Status error_;
};

}  // namespace r2ccl::nccl
