// The surroundings of a link: the services of its engine, its settings, and the events that it
// reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/path/nic_queue.h"
#include "protocol/path/peer_liveness.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/wire.h"
#include "runtime/connection/dial_gate.h"
#include "runtime/connection/handshake_io.h"
#include "runtime/connection/reactor.h"
#include "runtime/link/busy_links.h"
#include "runtime/link/link_witness.h"
#include "runtime/link/user_memory.h"
#include "transport/transport.h"

namespace r2ccl {

// A path changed its phase at this end.
struct PathEvent {
  Rank peer;
  PathId path;
  NicId local_nic;
  NicId remote_nic;
  Incarnation incarnation;
  PathPhase from = PathPhase::down;
  PathPhase to = PathPhase::down;
  DownCause cause = DownCause::none;       // cause seen by this end
  DownCause peer_cause = DownCause::none;  // cause seen by the peer, if it reported first
  TimeNs at = 0;
  TimeNs detected_ns = 0;            // since the first unacknowledged send, or the event
  uint64_t retransmitted_bytes = 0;  // bytes that had to be retransmitted
  TimeNs up_ns = 0;                  // time for which it had been up, suspicion included
  bool data = false;                 // it has its data connection
  bool planned = false;    // it was on standby and nothing was outstanding on it: no fault
  bool aftermath = false;  // a consequence of the whole peer's silence: no fault of its own
  std::string why;
};

// A way to a rank that relays: the end of an ordinary path to it.
struct RelayRoute {
  size_t turn = 0;  // the turn that it belongs to
  Rank via;
  NicId local_nic = kNoNic;
  NicId remote_nic = kNoNic;
  std::string device;
  Address source;
  Endpoint remote;
};

// The services that a link needs of the engine that owns it.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  virtual const Clock& clock() const = 0;
  virtual Reactor& reactor() = 0;
  virtual Transport& transport() = 0;
  virtual const RunIdentity& run() const = 0;
  virtual std::array<std::byte, kNonceBytes> nonce() = 0;
  virtual std::span<std::byte> scratch() = 0;
  // As ControlStream wants it.
  virtual std::span<std::byte> read_buffer() = 0;
  virtual std::vector<std::byte>& spare_frame() = 0;
  virtual NicQueue& queue(NicId nic) = 0;
  virtual BusyLinks& busy_links() = 0;
  // Returns the gate of first dials from that NIC; kNoNic: from none, in shared memory or not.
  virtual DialGate& dial_gate(NicId nic, bool shm) = 0;
  // Returns the notice of the present address of that NIC of this rank; empty: none is needed.
  virtual std::vector<std::byte> address_notice(NicId nic) const = 0;

  // Returns whether this host has the address now, and not for itself alone as the loopback's.
  virtual bool is_own(const Address& address) const = 0;
  // Some path carries nothing, and a change of this host's NICs may be the cause: reads them,
  // unless they have been read in the last `interval`.
  virtual void doubt_nics(TimeNs interval) = 0;
  // Nothing comes from the peer: other ranks ask it too.
  virtual void on_silent(Rank peer) = 0;
  // Nothing reaches the peer, for so long that people should know; `own`: because of a NIC of this
  // host. Or it is reached again.
  virtual void on_unreached(Rank peer, bool own, const std::string& why) = 0;
  virtual void on_reached(Rank peer) = 0;

  // Returns a way to a rank of a third host, which may relay to `peer`: that of `turn`, or of the
  // first later turn that has one; none: no other host is in reach.
  virtual std::optional<RelayRoute> relay_route(Rank peer, size_t turn) const = 0;

  // Returns whether nothing that `peer` still sends in the communicator counts: this end is done
  // with it for ever, or the peer is.
  virtual bool is_closed(ContextId context, Rank peer) const = 0;
  // The peer uses a context of which the link has no channel. Its user may open its channels, or
  // close it.
  virtual void on_new_context(ContextId, Rank) {}
  // The link to `peer` has work: its progress() is due. Called from anywhere.
  virtual void wake(Rank peer) = 0;
  // The peer's goodbye has arrived, and with it everything that the peer ever sent.
  virtual void on_goodbye(Rank peer) = 0;
  virtual void on_path_event(const PathEvent& event) = 0;
  virtual void on_notice(Rank peer, std::span<const std::byte> bytes) = 0;
  virtual void on_peer_end(Rank peer, PeerEnd end, const std::string& why) = 0;
  // Reports that memory of a client cannot be touched. Repeated until the client's channel is
  // cancelled.
  virtual void on_bad_memory(const BadMemory& bad) = 0;
  // Reports that the peer has made an impossible statement twice, on two connections, which no path
  // repairs. `why` follows the peer's name. The link lives on, so that both ends get the error.
  virtual void on_contradiction(Rank peer, const std::string& why) = 0;
};

struct LinkSettings {
  bool monitor = true;  // false: no suspicion, probes or hedges; ledgers and acknowledgements stay
  bool damping = true;
  TimeNs cutoff = 300 * kSecond;
  size_t links = 1;  // of the rank
  // The most completions that one pass delivers. An executor may reduce a segment at each, which
  // takes 0.1 ms.
  size_t completions_per_pass = 1;
  LinkWitness* witness = nullptr;  // none in production
};

}  // namespace r2ccl
