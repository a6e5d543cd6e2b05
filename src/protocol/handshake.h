// Mutual authentication of one connection, as a pure state machine: bytes in, bytes out.
//
//   initiator                                   acceptor
//     HELLO  job, epoch, ranks, path, kind,
//            last incarnation, nonce, payload ->
//                                             <- REPLY  incarnation, nonce, payload, MAC
//     FINAL  MAC                              ->
//
// Both MACs and the session keys are keyed with the job's secret and cover the whole transcript, so
// they are bound to the job, the epoch, both ranks, the path, the incarnation and the direction,
// and fresh nonces make a recorded handshake worthless. The incarnation is the larger of what both
// ends used last, plus one. Without a secret the same frames are exchanged under an all-zero key
// and the session is marked unauthenticated; one side with and one side without is refused in
// words.
//
// Until the FINAL is checked an acceptor holds one object of constant size per connection.
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

namespace r2ccl {

inline constexpr size_t kSecretBytes = 32;
inline constexpr size_t kJobIdBytes = 16;
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kMacKeyBytes = 32;
// Bound of the opaque bytes that each side may add to its first frame.
inline constexpr size_t kHandshakePayloadBytesMax = 1024;

enum class ConnectionKind : uint8_t {
  data = 1,
  lane = 2,
  rendezvous = 3,
  call = 4,  // says what the HELLO's payload holds, and is over
};

// What makes connections of two jobs (or two lives of one job) strangers to each other.
struct JobIdentity {
  std::array<std::byte, kJobIdBytes> id{};
  std::array<std::byte, kSecretBytes> secret{};
  bool authenticated = false;  // false: no secret was configured, `secret` is all zero
  uint32_t epoch = 0;
};

// What the two ends agree the connection is.
struct ConnectionIdentity {
  ConnectionKind kind = ConnectionKind::data;
  Rank from;  // the initiator
  Rank to;    // the acceptor
  PathId path;
  friend bool operator==(const ConnectionIdentity&, const ConnectionIdentity&) = default;
};

struct Session {
  ConnectionIdentity identity;
  Incarnation incarnation;
  bool authenticated = false;
  std::array<std::byte, kMacKeyBytes> send_key{};     // for what this end sends
  std::array<std::byte, kMacKeyBytes> receive_key{};  // for what this end receives
  std::vector<std::byte> peer_payload;
};

// An acceptor's answer to a HELLO that names `identity` and whose sender last used `theirs`.
struct AcceptDecision {
  Incarnation last_used;  // the largest incarnation this end has used on that path
  // Set for a lane that joins its path's data connection: the exact incarnation to answer with,
  // instead of max + 1.
  Incarnation join;
  std::vector<std::byte> payload;  // goes into the REPLY
};
// Called with a HELLO whose sender has proved nothing yet: it decides and changes no state, and it
// refuses an identity whose `to` is not this rank. An error's message is told to the peer.
using AcceptPolicy =
    std::function<Result<AcceptDecision>(const ConnectionIdentity& identity, Incarnation theirs)>;

class Handshake {
 public:
  enum class State : uint8_t {
    running,  // wants bytes, or has bytes to send
    done,     // session() is valid once output() is empty too
    failed,   // error() says why; send once what output() still holds (a refusal in words), close
  };

  virtual ~Handshake() = default;
  // Takes bytes from the front of `input`; returns how many were used. Bytes beyond the handshake
  // are left for the caller, and so are all bytes once the state is not `running`.
  virtual size_t consume(std::span<const std::byte> input) = 0;
  // Bytes to send now; `sent` says how many of them were.
  virtual std::span<const std::byte> output() const = 0;
  virtual void sent(size_t bytes) = 0;
  virtual State state() const = 0;
  virtual const Status& error() const = 0;
  virtual const Session& session() const = 0;
};

// `nonce` must be fresh random bytes (random_nonce() in real life, a seed's in a simulation).
std::unique_ptr<Handshake> make_initiator(const JobIdentity& job,
                                          const ConnectionIdentity& identity, Incarnation last_used,
                                          std::span<const std::byte, kNonceBytes> nonce,
                                          std::vector<std::byte> payload);
std::unique_ptr<Handshake> make_acceptor(const JobIdentity& job, AcceptPolicy policy,
                                         std::span<const std::byte, kNonceBytes> nonce);

// A MAC over one control frame under a session key.
inline constexpr size_t kMacBytes = 16;
void compute_mac(std::span<const std::byte, kMacKeyBytes> key, std::span<const std::byte> bytes,
                 std::span<std::byte, kMacBytes> mac);
// Constant time.
bool check_mac(std::span<const std::byte, kMacKeyBytes> key, std::span<const std::byte> bytes,
               std::span<const std::byte, kMacBytes> mac);

}  // namespace r2ccl
