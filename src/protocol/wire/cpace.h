// CPace, the balanced PAKE of draft-irtf-cfrg-cpace-21, in the cipher suite CPACE-RISTR255-SHA512
// and the initiator-responder setting (sections 7, 8.3 and A.1). Two ends that hold the same
// password agree on a key. A wrong guess of the password teaches its sender only that this one
// guess was wrong, and no message helps to test a list of words.
//
// With an empty password this is a Diffie-Hellman agreement in the prime-order group of Curve25519:
// the key is fresh and secret from every listener, but authenticates neither end.
//
// The caller confirms the key (section 9.4 of the draft): the agreement alone does not show that
// the other end has the same one.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "protocol/wire/crypto.h"

namespace r2ccl::cpace {

inline constexpr size_t kPointBytes = crypto_core_ristretto255_BYTES;
using Point = std::array<std::byte, kPointBytes>;
using Scalar = crypto::Wiped<crypto_core_ristretto255_SCALARBYTES>;
// The ISK of the draft.
using SessionKey = crypto::Wiped<crypto_hash_sha512_BYTES>;
using Bytes = std::span<const std::byte>;

// Returns generator_string(): `password` is its PRS, `channel` its CI, `session` its sid.
std::vector<std::byte> generator_string(Bytes password, Bytes channel, Bytes session);
// Returns calculate_generator().
Point generator(Bytes password, Bytes channel, Bytes session);

Scalar random_scalar();
// Returns Ya or Yb.
Point share(const Scalar& scalar, const Point& generator);

// The messages of both ends: each is a share and its associated data.
struct Messages {
  Point initiator_share;
  Bytes initiator_data;
  Point responder_share;
  Bytes responder_data;
};
// Returns nothing when the peer's share is no point, or leads to the neutral element. The handshake
// must end then.
std::optional<SessionKey> session_key(const Scalar& own, const Point& peers, Bytes session,
                                      const Messages& messages);

}  // namespace r2ccl::cpace
