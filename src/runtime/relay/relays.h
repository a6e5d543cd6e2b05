// The part of a rank in relays: which rank a link of this rank asks, and the connections that this
// rank relays for others. A rank relays only on the ordinary paths of its links, so relays make no
// chains.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/wire/handshake.h"
#include "runtime/connection/handshake_io.h"
#include "runtime/link/link_host.h"
#include "runtime/nics/local_nics.h"
#include "runtime/peers/job_map.h"
#include "runtime/peers/peer_table.h"
#include "runtime/relay/relay_pipes.h"
#include "transport/transport.h"

namespace r2ccl {

class Relays {
 public:
  // All references must outlive this; `job` and `peers` are those of the rank.
  Relays(const RelayHost& host, Transport& transport, const Clock& clock, const JobMap& job,
         const PeerTable& peers, LocalNics& nics)
      : transport_(transport), clock_(clock), job_(job), peers_(peers), nics_(nics), pipes_(host) {}

  // As LinkHost::relay_route().
  std::optional<RelayRoute> route(Rank peer, size_t turn) const;
  // Answers a rank that asks this one to relay. The answer names the peer's NIC, whose listener the
  // connection comes to.
  Result<AcceptDecision> on_hello(const ConnectionIdentity& identity) const;
  // Relays that rank's connection.
  void adopt(EstablishedConnection from);

  // The connections that this rank relays.
  RelayPipes& pipes() { return pipes_; }
  const RelayPipes& pipes() const { return pipes_; }

 private:
  const Path* ordinary_path(Rank peer, size_t turn) const;
  const Path* path_behind(const ConnectionIdentity& identity) const;

  Transport& transport_;
  const Clock& clock_;
  const JobMap& job_;
  const PeerTable& peers_;
  LocalNics& nics_;
  RelayPipes pipes_;
};

}  // namespace r2ccl
