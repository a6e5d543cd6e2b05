// Serves the processes that connect to this one: each proves that it has the handle, asks for a
// connection and gets an answer. Anybody can reach the port; the acceptor bounds the processes that
// have proved nothing.
//
// A state machine over a Reactor: call progress() after every poll and at next_timeout(). Driving
// thread only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "nccl/meeting_messages.h"
#include "protocol/wire/handshake.h"
#include "runtime/connection/acceptor.h"
#include "runtime/connection/reactor.h"
#include "transport/transport.h"

namespace r2ccl::nccl {

// Decides about the asks.
class MeetingHost {
 public:
  virtual ~MeetingHost() = default;
  enum class Verdict : uint8_t {
    answer,  // `*answer` is set
    later,   // the server asks again in each pass
    gone,    // as MeetingMessage
  };
  // An error goes back in words.
  virtual Result<Verdict> on_ask(const Ask& ask, Answer* answer) = 0;
  // The other process has its end of the connection. An error goes back in words.
  virtual Status on_opened(const Ask& ask) = 0;
};

class MeetingServer {
 public:
  // `job` has the secret of the handles. All references must outlive this.
  MeetingServer(Reactor& reactor, Transport& transport, const Clock& clock, MeetingHost& host,
                JobIdentity job, std::function<std::array<std::byte, kNonceBytes>()> nonce);
  ~MeetingServer();
  MeetingServer(const MeetingServer&) = delete;
  MeetingServer& operator=(const MeetingServer&) = delete;

  // Listens on these addresses, and sets their ports. Fails when there is none to listen on.
  Status open(std::vector<Endpoint>& endpoints);

  void progress(TimeNs now);
  // Returns the time at which progress() is due even if nothing is ready.
  TimeNs next_timeout() const;

 private:
  class Guest;

  void admit(EstablishedConnection established);
  bool serve(Guest& guest, TimeNs now);
  bool on_message(Guest& guest, const SealedStream::Message& message, TimeNs now);
  void decide(Guest& guest, TimeNs now);
  static void refuse(Guest& guest, const Status& why);

  Reactor& reactor_;
  const Clock& clock_;
  MeetingHost& host_;
  const JobIdentity job_;
  Acceptor acceptor_;
  std::list<std::unique_ptr<Guest>> guests_;  // each has proved to have the handle
};

}  // namespace r2ccl::nccl
