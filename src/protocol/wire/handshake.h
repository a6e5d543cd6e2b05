// Mutual authentication of one connection, as a pure state machine: bytes in, bytes out. There are
// two kinds. docs/wire.md has the frames, docs/decisions/0011-keys-come-from-the-run.md the
// reasons.
//
// Between a rank and the rendezvous, which share a secret at most (CPace, cpace.h):
//
//   initiator                                   acceptor
//     HELLO    job, rank, nonce, share      ->
//                                             <- REPLY    nonce, share
//     FINAL    proof                        ->
//                                             <- CONFIRM  proof
//
// Between two ranks, which share the run's key:
//
//     HELLO    run, ranks, NICs, path, kind, last
//              incarnation, nonce, payload, proof ->
//                                             <- REPLY    incarnation, nonce, payload, proof
//     FINAL    proof                        ->
//
// The initiator proves first in both. The proofs and the session keys cover the whole transcript,
// so they are bound to everything that the HELLO names, to the incarnation and to the direction.
// Fresh nonces make a recorded handshake worthless. The incarnation is the larger of both ends'
// last ones, plus one; a connection that joins has the one that its HELLO names.
//
// Until the acceptor has checked the FINAL, it holds one object of constant size per connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "protocol/wire/locked_bytes.h"

namespace r2ccl {

inline constexpr size_t kSecretBytes = 32;
inline constexpr size_t kJobIdBytes = 16;
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kMacKeyBytes = 32;
// Bound of the opaque bytes that each side may add to its first frame.
inline constexpr size_t kHandshakePayloadBytesMax = 1024;

enum class ConnectionKind : uint8_t {
  data = 1,     // opens an incarnation of its path by the data connection
  control = 2,  // opens one by the control stream
  rendezvous = 3,
  call = 4,  // the HELLO's payload is the whole message
  join = 5,  // the other connection of the incarnation that its HELLO names
  // The acceptor passes the bytes on, both ways, to and from the rank that `to` names.
  relay = 6,
};

// The rank number of the rendezvous in handshakes; it is no rank.
inline constexpr Rank kRendezvousRank{-1};

// The ranks of a job know this before they have met. Everything but the secret is public.
struct JobIdentity {
  std::array<std::byte, kJobIdBytes> id{};
  LockedBytes secret;  // kSecretBytes; empty: any process can take part in the start of this job
  uint32_t epoch = 0;
  bool authenticated() const { return !secret.empty(); }
};

// One run of a job, as its ranks know it once they have met: key_schedule.h makes it.
struct RunIdentity {
  std::array<std::byte, kJobIdBytes> id{};  // public; differs from run to run
  LockedBytes key;                          // empty: the ranks have not met yet
  uint32_t epoch = 0;
};

// The identity of the connection, on which the two ends agree.
struct ConnectionIdentity {
  ConnectionKind kind = ConnectionKind::data;
  Rank from;  // the initiator
  Rank to;    // the acceptor; in a relay's HELLO the rank behind it
  PathId path;
  NicId from_nic = kNoNic;  // the initiator's NIC of the path
  NicId to_nic = kNoNic;    // the acceptor's NIC, whose listener takes the connection
  friend bool operator==(const ConnectionIdentity&, const ConnectionIdentity&) = default;
};

// The keys of one connection: each use derives its own from the direction's key.
struct Session {
  ConnectionIdentity identity;
  Incarnation incarnation;
  crypto::Wiped<kMacKeyBytes> send_key;     // for the bytes that this end sends
  crypto::Wiped<kMacKeyBytes> receive_key;  // for the bytes that this end receives
  std::vector<std::byte> peer_payload;
};

// An acceptor's answer to a HELLO that names `identity` and whose sender last used `theirs`.
struct AcceptDecision {
  Incarnation last_used;  // the largest incarnation this end has used on that path
  // Set for a connection that joins: the exact incarnation to answer with, instead of max + 1.
  Incarnation join;
  std::vector<std::byte> payload;  // goes into the REPLY
};
// Called with a HELLO of a rank of this run, which may be a recording. So it decides and changes no
// state, and it refuses an identity whose `to` is not this rank. The peer gets an error's message.
using AcceptPolicy =
    std::function<Result<AcceptDecision>(const ConnectionIdentity& identity, Incarnation theirs)>;

class Handshake {
 public:
  enum class State : uint8_t {
    running,  // wants bytes, or has bytes to send
    done,     // session() is valid once output() is empty too
    failed,   // error() says why; send once the rest of output() (a refusal in words), then close
  };

  virtual ~Handshake() = default;
  // Takes bytes from the front of `input`; returns the number of bytes used. It leaves bytes beyond
  // the handshake to the caller, and all bytes once the state is not `running`.
  virtual size_t consume(std::span<const std::byte> input) = 0;
  // Returns the bytes to send now. sent() takes the number of them that were sent.
  virtual std::span<const std::byte> output() const = 0;
  virtual void sent(size_t bytes) = 0;
  virtual State state() const = 0;
  virtual const Status& error() const = 0;
  virtual const Session& session() const = 0;
};

// `nonce` must be fresh random bytes (random_nonce() in production, a seed's in a simulation).
using Nonce = std::span<const std::byte, kNonceBytes>;
std::unique_ptr<Handshake> make_initiator(const RunIdentity& run,
                                          const ConnectionIdentity& identity, Incarnation last_used,
                                          Nonce nonce, std::vector<std::byte> payload);
// `listener` is the NIC whose listener took the connection; kNoNic: it belongs to no data NIC.
std::unique_ptr<Handshake> make_acceptor(const RunIdentity& run, NicId listener,
                                         AcceptPolicy policy, Nonce nonce);

// Makes a handshake between rank `self` and the rendezvous. Neither end, nor a listener, learns
// anything that helps to test guesses of the secret, except one guess a connection.
std::unique_ptr<Handshake> make_rendezvous_initiator(const JobIdentity& job, Rank self,
                                                     Nonce nonce);
std::unique_ptr<Handshake> make_rendezvous_acceptor(const JobIdentity& job, Nonce nonce);

// Computes a MAC over one control frame under a session key.
inline constexpr size_t kMacBytes = 16;
void compute_mac(std::span<const std::byte, kMacKeyBytes> key, std::span<const std::byte> bytes,
                 std::span<std::byte, kMacBytes> mac);
// Takes constant time.
bool check_mac(std::span<const std::byte, kMacKeyBytes> key, std::span<const std::byte> bytes,
               std::span<const std::byte, kMacBytes> mac);

}  // namespace r2ccl
