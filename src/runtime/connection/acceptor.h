// Listeners and their pending connections: connections that have not authenticated.
// Their number, their age and their share of each pass are bounded (handshake_limiter.h), so
// garbage, half-open connections and a flood cost little and delay no peer.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/wire/handshake.h"
#include "runtime/connection/handshake_io.h"
#include "runtime/connection/handshake_limiter.h"
#include "runtime/connection/reactor.h"
#include "transport/transport.h"

namespace r2ccl {

class Acceptor {
 public:
  struct Callbacks {
    // Returns the accepting end's handshake for a connection to the listener of that NIC.
    std::function<std::unique_ptr<Handshake>(NicId came_by)> handshake;
    std::function<void(EstablishedConnection)> established;
  };

  Acceptor(Reactor& reactor, Transport& transport, const Clock& clock, Callbacks callbacks);
  ~Acceptor();

  // Listens and returns the endpoint; `local` and `port`: as Transport has them. The listener of a
  // NIC replaces the earlier one, and admits only connections of paths that use data NICs; kNoNic:
  // of those that use none.
  Result<Endpoint> listen(const Address& local, const std::string& device, NicId nic,
                          uint16_t port = 0);
  // Begins to accept. Connections that came before have waited in the listeners' backlogs, so an
  // early peer is not refused. Listeners of later calls of listen() accept at once.
  Status begin();
  // Reserves places and time for the peers' addresses, so that no flood takes them.
  void reserve(const std::vector<Address>& peers) { limiter_.reserve(peers); }
  // Ends the pass: resets the work times, closes pending connections that take too long, and
  // re-enables listeners after a shortage.
  void progress(TimeNs now);
  TimeNs next_timeout() const;

  uint64_t refused() const { return refused_; }

 private:
  class ListenSocket;
  class PendingConnection;

  // The kinds of work of the driving thread. One pass gives each kind its own bounded time.
  enum Work : uint8_t { kAccepts, kPeers, kOthers, kWorks };
  class Timer;

  bool has_time(Work work) const;
  void accept_from(ListenSocket& listen_socket);
  void admit(ListenSocket& listen_socket, std::unique_ptr<Connection> connection, TimeNs now);
  void evict_surplus();
  void finish(PendingConnection& pending, bool established);

  Reactor& reactor_;
  Transport& transport_;
  const Clock& clock_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<ListenSocket>> listen_sockets_;
  HandshakeLimiter limiter_;                                 // all of pending_
  std::vector<std::unique_ptr<PendingConnection>> pending_;  // oldest first
  std::array<TimeNs, kWorks> spent_{};                       // in this pass
  uint64_t refused_ = 0;
  bool accepts_ = false;
};

}  // namespace r2ccl
