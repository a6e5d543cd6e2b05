#include "protocol/wire/cpace.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"

namespace r2ccl::cpace {
namespace {

constexpr std::string_view kDomain = "CPaceRistretto255";
constexpr std::string_view kKeyDomain = "CPaceRistretto255_ISK";
constexpr size_t kHashBlockBytes = 128;  // SHA-512's block: s_in_bytes
constexpr size_t kLengthBytesMax = 10;   // the most for one length in LEB128

Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
const unsigned char* raw(Bytes bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw_out(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

size_t length_bytes(size_t length) {
  size_t count = 1;
  for (; length >= 128; length >>= 7) ++count;
  return count;
}

// lv_cat(): each part behind its length in LEB128. Requires reserved memory: `out` must not grow
// and leave a copy of a secret behind.
void append(std::vector<std::byte>& out, std::initializer_list<Bytes> parts) {
  for (const Bytes part : parts) {
    size_t length = part.size();
    R2CCL_CHECK(out.size() + length_bytes(length) + length <= out.capacity());
    for (; length >= 128; length >>= 7) {
      out.push_back(static_cast<std::byte>((length & 0x7f) | 0x80));
    }
    out.push_back(static_cast<std::byte>(length));
    out.insert(out.end(), part.begin(), part.end());
  }
}

}  // namespace

std::vector<std::byte> generator_string(Bytes password, Bytes channel, Bytes session) {
  // The padding fills the first block of the hash, so the rest costs the same time for every
  // password.
  const size_t used = 1 + length_bytes(password.size()) + password.size() +
                      length_bytes(kDomain.size()) + kDomain.size();
  const std::vector<std::byte> padding(kHashBlockBytes - std::min(used, kHashBlockBytes));
  std::vector<std::byte> out;
  out.reserve(kDomain.size() + password.size() + padding.size() + channel.size() + session.size() +
              5 * kLengthBytesMax);
  append(out, {bytes_of(kDomain), password, padding, channel, session});
  return out;
}

Point generator(Bytes password, Bytes channel, Bytes session) {
  crypto::initialise();
  std::vector<std::byte> text = generator_string(password, channel, session);
  crypto::Wiped<crypto_hash_sha512_BYTES> digest;
  crypto_hash_sha512(raw_out(digest), raw(text), text.size());
  crypto::wipe(text);
  Point point;
  crypto_core_ristretto255_from_hash(raw_out(point), raw(digest));
  return point;
}

Scalar random_scalar() {
  crypto::initialise();
  Scalar scalar;
  crypto_core_ristretto255_scalar_random(raw_out(scalar));
  return scalar;
}

Point share(const Scalar& scalar, const Point& generator) {
  Point out;
  // The chance that a generator is the neutral element, or a scalar zero, is 2^-252.
  R2CCL_CHECK(crypto_scalarmult_ristretto255(raw_out(out), raw(scalar), raw(generator)) == 0);
  return out;
}

std::optional<SessionKey> session_key(const Scalar& own, const Point& peers, Bytes session,
                                      const Messages& messages) {
  crypto::initialise();
  crypto::Wiped<kPointBytes> common;
  // Fails for bytes that encode no point, and if the result is the neutral element.
  if (crypto_scalarmult_ristretto255(raw_out(common), raw(own), raw(peers)) != 0) return {};
  std::vector<std::byte> text;
  text.reserve(kKeyDomain.size() + session.size() + 3 * kPointBytes +
               messages.initiator_data.size() + messages.responder_data.size() +
               7 * kLengthBytesMax);
  append(text, {bytes_of(kKeyDomain), session, common, messages.initiator_share,
                messages.initiator_data, messages.responder_share, messages.responder_data});
  SessionKey key;
  crypto_hash_sha512(raw_out(key), raw(text), text.size());
  crypto::wipe(text);
  return key;
}

}  // namespace r2ccl::cpace
