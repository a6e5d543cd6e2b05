// The frames of the handshake as bytes. Little-endian. The first eight bytes are the same in every
// version of the protocol, and HELLO's up to the sender's rank, so that two versions can tell each
// other that they do not match, and of which rank.
//
//   all      magic "R2CL"(4)  type(1)  a(1)  b(1)  c(1)
//   HELLO    a = lowest version, b = highest version, c = flags (bit 0: has a secret)
//            job(16) epoch(4) from(4) to(4) path(2) kind(1) 0(1) from NIC(2) to NIC(2)
//            incarnation(4) payload bytes(2) 0(2) nonce(32) payload seal(32)
//   REPLY    a = version chosen, b = 0, c = flags
//            incarnation(4) payload bytes(2) 0(2) nonce(32) payload seal(32)
//   FINAL    a = version, b = c = 0;  proof(32)
//   CONFIRM  as FINAL
//   REFUSE   a = 0, b and c = bytes of text;  text in UTF-8, for the peer's log
//
// The seal of HELLO and REPLY is a proof, or at the rendezvous a share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/wire/crypto.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

inline constexpr uint8_t kHandshakeVersionMin = kWireVersion;
inline constexpr uint8_t kHandshakeVersionMax = kWireVersion;

enum class HandshakeFrame : uint8_t { hello = 1, reply = 2, final = 3, refuse = 4, confirm = 5 };

inline constexpr size_t kHandshakePrefixBytes = 8;
inline constexpr size_t kHelloFixedBytes = 32;  // the same in every version
inline constexpr size_t kHelloHeaderBytes = 84;
inline constexpr size_t kReplyHeaderBytes = 48;
inline constexpr size_t kFinalBytes = kHandshakePrefixBytes + crypto::kHashBytes;
inline constexpr size_t kRefuseTextBytesMax = 400;
inline constexpr size_t kHandshakeFrameBytesMax =
    kHelloHeaderBytes + kHandshakePayloadBytesMax + crypto::kHashBytes;

struct HelloFrame {
  uint8_t version_min = kHandshakeVersionMin;
  uint8_t version_max = kHandshakeVersionMax;
  bool authenticated = false;
  std::array<std::byte, kJobIdBytes> job{};
  uint32_t epoch = 0;
  ConnectionIdentity identity;
  Incarnation last_used;
  std::array<std::byte, kNonceBytes> nonce{};
  std::vector<std::byte> payload;
  crypto::Hash seal{};  // decoded only: the encoders leave it to their callers, which hash the rest
};

struct ReplyFrame {
  uint8_t version = kHandshakeVersionMax;
  bool authenticated = false;
  Incarnation incarnation;
  std::array<std::byte, kNonceBytes> nonce{};
  std::vector<std::byte> payload;
  crypto::Hash seal{};  // as above
};

std::vector<std::byte> encode_without_seal(const HelloFrame& hello);
std::vector<std::byte> encode_without_seal(const ReplyFrame& reply);
// Requires a whole frame. Returns a HELLO or REPLY up to its seal.
std::span<const std::byte> without_seal(std::span<const std::byte> frame);
// Requires FINAL or CONFIRM. Returns the bytes before its proof.
std::array<std::byte, kHandshakePrefixBytes> proof_prefix(HandshakeFrame type, uint8_t version);
std::vector<std::byte> encode_refusal(std::string_view text);

// `bytes` is one whole frame from a FrameAssembler.
Result<HelloFrame> decode_hello(std::span<const std::byte> bytes);
Result<ReplyFrame> decode_reply(std::span<const std::byte> bytes);
// Returns printable ASCII for any bytes of the peer.
std::string decode_refusal(std::span<const std::byte> bytes);

// Collects one frame of the wanted type, or a REFUSE in its place. Uses fixed memory. Fails at the
// first byte that cannot belong to such a frame, so one byte is enough to detect a stray HTTP
// client.
class FrameAssembler {
 public:
  explicit FrameAssembler(HandshakeFrame wanted) : wanted_(wanted) {}

  // Returns the number of bytes used: 0 once whole() or failed.
  size_t consume(std::span<const std::byte> input);
  bool whole() const { return error_.ok() && filled_ == needed_ && sized_; }
  const Status& error() const { return error_; }
  HandshakeFrame type() const;
  std::span<const std::byte> bytes() const { return std::span(buffer_).first(filled_); }
  void reset(HandshakeFrame wanted);

 private:
  Status check_magic() const;
  Status check_type() const;
  // Called when needed_ bytes have arrived: sets the frame's size, as far as it is known.
  Status grow();

  HandshakeFrame wanted_;
  size_t filled_ = 0;                      // <= needed_
  size_t needed_ = kHandshakePrefixBytes;  // <= buffer_.size()
  bool sized_ = false;                     // needed_ is the size of the whole frame
  Status error_;
  std::array<std::byte, kHandshakeFrameBytesMax> buffer_{};
};

}  // namespace r2ccl
