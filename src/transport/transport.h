// The seam between the engine and the machine: connections, listeners, NICs and readiness.
//
// Everything is non-blocking and single-threaded: one poller, its connections and its listeners
// belong to one thread (Poller::wake is the one exception). The TCP transport implements this over
// sockets and epoll, src/sim over a virtual fabric, and transport/faulty wraps either. They all
// pass the conformance suite in testing/conformance.h.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/endpoint.h"

namespace r2ccl {

enum class IoKind : uint8_t {
  progressed,  // `bytes` > 0 were moved
  blocked,     // nothing can move now; the poller will report readiness
  closed,      // read: the peer ended its stream in order, after the last byte was read
  failed,      // the connection is gone; `error` is an errno value
  refused,     // the kernel refused this call and the connection lives: `error` says why
};

// Errors of a read or write that say nothing about the connection. EFAULT: the kernel cannot access
// memory of `slices`. The others: the kernel is short of memory. Readiness does not tell when the
// shortage ends, so the owner must try again after a pause.
constexpr bool is_refusal(int error) {
  return error == EFAULT || error == ENOMEM || error == ENOBUFS;
}

struct IoResult {
  IoKind kind = IoKind::blocked;
  size_t bytes = 0;
  int error = 0;
};

enum class ConnectState : uint8_t { pending, established, failed };

// An idle connection probes the peer's kernel this often, by any means of the transport.
inline constexpr TimeNs kKeepAlive = 5 * kSecond;

// Counts of one direction of a connection, from this end on, since it was opened. A count that the
// transport cannot know stays 0.
struct PacketCounts {
  uint64_t sent = 0;           // packets with payload, retransmissions included
  uint64_t retransmitted = 0;  // part of `sent`
  uint64_t spurious = 0;   // part of `retransmitted`: the peer had them already (RFC 2883: D-SACK)
  uint64_t delivered = 0;  // packets that the peer has acknowledged

  PacketCounts& operator+=(const PacketCounts& other) {
    sent += other.sent;
    retransmitted += other.retransmitted;
    spurious += other.spurious;
    delivered += other.delivered;
    return *this;
  }
  friend bool operator==(const PacketCounts&, const PacketCounts&) = default;
};

// A transport's knowledge of a connection beyond its bytes, for `status` and the detector.
struct ConnectionInfo {
  TimeNs smoothed_rtt_ns = 0;  // 0 when not known
  TimeNs least_rtt_ns = 0;     // of late; 0 when not known
  uint64_t unsent_bytes = 0;   // accepted by write() but not yet passed to the wire
  // Bytes accepted by write() that the peer's kernel has not acknowledged; 0 when not known.
  uint64_t unacknowledged_bytes = 0;
  PacketCounts packets;
  // Bytes that the peer's kernel has acknowledged, and the time in which some were on their way; 0
  // when not known.
  uint64_t acknowledged_bytes = 0;
  TimeNs busy_ns = 0;
  // The kernel's highest delivery rate since the network last limited one; 0: the network limits
  // it, or not known. It may be that of a burst.
  double unlimited_bytes_per_ns = 0;
  // The longest time for which the peer's kernel may have owed an answer; 0: it owes none; kNever:
  // not known.
  TimeNs unanswered_ns = kNever;
};

// Returns ConnectionInfo::unanswered_ns of a connection that has heard no acknowledgement for
// `silent_ns`.
inline TimeNs unanswered_time(bool in_flight, TimeNs silent_ns) {
  return in_flight || silent_ns >= 2 * kKeepAlive ? silent_ns : 0;
}

// A reliable ordered byte stream over one path. Destroying it closes abortively: undelivered bytes
// are discarded and the peer sees a failure. A goodbye frame announces an orderly end, never a
// close.
class Connection {
 public:
  virtual ~Connection() = default;

  virtual ConnectState connect_state() = 0;
  // Returns the errno value of a failed connect; 0 otherwise.
  virtual int connect_error() const = 0;
  // Reads or writes. Vectored and non-blocking. Requires that `slices` holds at least one byte.
  virtual IoResult read(std::span<const iovec> slices) = 0;
  virtual IoResult write(std::span<const iovec> slices) = 0;
  // Reads as read() does. But a transport whose NIC writes by itself may go on to fill `slices`
  // after this has returned, up to the next receive(), which returns those bytes. fence() and
  // destruction end that for good: no byte that was in flight when the connection failed lands any
  // more.
  virtual IoResult receive(std::span<const iovec> slices) { return read(slices); }
  virtual void fence() {}
  // Writes as write() does. But a transport may leave the last slice where it is, and take its
  // bytes when the reader asks for them. They must then stay as they are until the reader has them,
  // or until release() or destruction: after these the transport reads the slice no more.
  virtual IoResult send(std::span<const iovec> slices) { return write(slices); }
  virtual void release() noexcept {}
  // Returns whether send() may leave a last slice of so many bytes where it is.
  virtual bool sends_in_place(size_t bytes) const {
    (void)bytes;
    return false;
  }
  // Drops the next bytes of the stream, at most `most`, if the other end still has them in place.
  // Returns how many. So a reader that wants none of them does not fetch them.
  virtual size_t skip(size_t most) {
    (void)most;
    return 0;
  }
  virtual ConnectionInfo info() const = 0;
  // Returns the address that the other side connects from or is reached at.
  virtual Endpoint remote() const = 0;
  // Returns the address of this side; of family none where it is not known or there is none.
  virtual Endpoint local() const { return {}; }
  // Returns the identity for Poller; unique among the live connections and listeners of one
  // transport.
  virtual int poll_id() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;

  // Returns the next pending connection, or null when there is none. It also returns null when
  // descriptors or memory have run out. `accept_error` then holds an errno value until an accept()
  // succeeds, and the backlog keeps the other connections. Readiness is level-triggered, so the
  // owner must then remove the listener from the poller and add it again after a pause, or it will
  // spin.
  virtual std::unique_ptr<Connection> accept() = 0;
  virtual int accept_error() const = 0;
  virtual Endpoint local() const = 0;
  virtual int poll_id() const = 0;
};

struct PollEvent {
  uint64_t token = 0;
  bool readable = false;  // also set when the connection failed or ended: read() tells which
  bool writable = false;  // also set when a pending connect has finished either way
};

// Level-triggered readiness.
class Poller {
 public:
  virtual ~Poller() = default;

  // Events carry `token`. Read interest is always on.
  virtual Status add(int poll_id, uint64_t token, bool want_write) = 0;
  virtual void modify(int poll_id, uint64_t token, bool want_write) = 0;
  // Removes an id; must precede the destruction of the connection or listener.
  virtual void remove(int poll_id) = 0;
  // Fills `events` and returns their number; returns 0 after `timeout_ns` (kNever: no limit) or
  // wake().
  virtual size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) = 0;
  // Ends the current wait() early, or the next one with a timeout above 0. Any thread may call it.
  virtual void wake() = 0;
};

// The kind of an interface. It decides whether the interface is a default choice.
enum class NicKind : uint8_t {
  other,
  ethernet,
  infiniband,
  loopback,
  veth,
  bridge,
  tun,
  wireguard,
  dummy,
  vlan,
  bond,
  macvlan,
  tunnel,
};

const char* to_string(NicKind kind);

// A network interface as the transport sees it. Identity is (name, hardware address): addresses
// may change while the NIC stays the same.
struct Nic {
  std::string name;
  uint32_t index = 0;                 // the kernel's interface index
  std::array<uint8_t, 8> hardware{};  // MAC or the last eight bytes of an IPoIB address
  std::vector<Address> addresses;     // global ones first
  NicKind kind = NicKind::other;
  uint32_t master = 0;  // index of the bond or bridge that it belongs to; 0: none
  uint32_t mtu = 0;
  uint64_t speed_mbps = 0;  // link speed as the driver claims; 0 unknown; never a rate
  bool up = false;          // administratively up
  bool carrier = false;
  bool usable = false;  // chosen as a data NIC
  std::string reason;   // why it is (not) chosen, for `r2ccl info`

  bool alive() const { return up && carrier; }

  friend bool operator==(const Nic&, const Nic&) = default;
};

// Options of one connection, fixed before it is opened.
struct ConnectOptions {
  std::string device;  // bind to this NIC by name; empty: let routing decide
  Address source;      // bind to this address; family none: any
  uint32_t unsent_low_water =
      0;  // wake the writer only when fewer unsent bytes are queued; 0: default
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual Poller& poller() = 0;
  // Returns all interfaces of this host, also unchosen ones, in kernel order, as they were last
  // read. Only the first call may take long. A call without an event since the last one has them
  // read again; a difference is then an event.
  virtual Result<std::vector<Nic>> nics() = 0;
  // Returns a descriptor-like id that becomes readable when any NIC or address may have changed;
  // -1: none.
  virtual int nic_events_poll_id() const = 0;
  // Consumes pending events; returns true when the caller should call nics() again.
  virtual bool drain_nic_events() = 0;
  // Listens on `local` (port 0: choose one; family none: all addresses), on `device` if named.
  virtual Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                                   const std::string& device) = 0;
  // Starts to connect; the connection's first writable event shows that it has finished. If the
  // network refuses at once (no route, no such NIC, no carrier, connection refused), returns a
  // connection that has failed. A Status means that there was no descriptor, or that `remote` is no
  // address.
  virtual Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                                      const ConnectOptions& options) = 0;
};

}  // namespace r2ccl
