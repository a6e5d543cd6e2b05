#include "protocol/wire/crypto.h"

#include "base/check.h"
#include "protocol/wire/handshake.h"

namespace r2ccl::crypto {
namespace {

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw_out(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

// More than libsodium's BLAKE2b uses.
constexpr size_t kStackOfHash = 4096;

void labelled_hash(std::span<std::byte, kHashBytes> out, std::span<const std::byte> key,
                   std::string_view label, Inputs inputs) {
  initialise();
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.empty() ? nullptr : raw(key), key.size(), kHashBytes);
  crypto_generichash_update(&state, raw(std::as_bytes(std::span(label))), label.size());
  for (const auto input : inputs) crypto_generichash_update(&state, raw(input), input.size());
  crypto_generichash_final(&state, raw_out(out), out.size());
  // The state begins with the key, and the library's functions leave its words on the stack below.
  sodium_memzero(&state, sizeof state);
  sodium_stackzero(kStackOfHash);
}

using SealNonce = std::array<std::byte, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

SealNonce seal_nonce(uint64_t number) {
  SealNonce nonce{};
  for (size_t i = 0; i < sizeof number; ++i) nonce[i] = static_cast<std::byte>(number >> (8 * i));
  return nonce;
}

}  // namespace

void initialise() {
  static const bool ready = sodium_init() >= 0;
  R2CCL_CHECK(ready);
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(std::span<std::byte> secret) {
  sodium_memzero(secret.data(), secret.size());
}

Transcript::Transcript() {
  initialise();
  crypto_generichash_init(&state_, nullptr, 0, kHashBytes);
}

void Transcript::add(std::span<const std::byte> bytes) {
  crypto_generichash_update(&state_, raw(bytes), bytes.size());
}

Hash Transcript::digest() const {
  crypto_generichash_state copy = state_;
  Hash out;
  crypto_generichash_final(&copy, raw_out(out), out.size());
  return out;
}

Hash derive(Key key, std::string_view label, std::span<const std::byte> input) {
  Hash out;
  labelled_hash(out, key, label, {input});
  return out;
}

void derive_into(std::span<std::byte, kHashBytes> out, Key key, std::string_view label,
                 Inputs inputs) {
  labelled_hash(out, key, label, inputs);
}

LockedBytes derive_key(Key key, std::string_view label, Inputs inputs) {
  return LockedBytes::make(kHashBytes, [&](std::span<std::byte> out) {
    labelled_hash(out.first<kHashBytes>(), key, label, inputs);
  });
}

Hash hash(std::string_view label, std::span<const std::byte> input) {
  Hash out;
  labelled_hash(out, {}, label, {input});
  return out;
}

void seal(Key key, uint64_t number, std::span<const std::byte> header,
          std::span<const std::byte> plain, std::span<std::byte> out) {
  R2CCL_CHECK(out.size() == plain.size() + kSealBytes);
  const SealNonce nonce = seal_nonce(number);
  unsigned long long size = 0;
  crypto_aead_chacha20poly1305_ietf_encrypt(raw_out(out), &size, raw(plain), plain.size(),
                                            raw(header), header.size(), nullptr, raw(nonce),
                                            raw(key));
}

bool open(Key key, uint64_t number, std::span<const std::byte> header,
          std::span<const std::byte> sealed, std::span<std::byte> out) {
  R2CCL_CHECK(sealed.size() == out.size() + kSealBytes);
  const SealNonce nonce = seal_nonce(number);
  unsigned long long size = 0;
  return crypto_aead_chacha20poly1305_ietf_decrypt(raw_out(out), &size, nullptr, raw(sealed),
                                                   sealed.size(), raw(header), header.size(),
                                                   raw(nonce), raw(key)) == 0;
}

}  // namespace r2ccl::crypto

namespace r2ccl {

void compute_mac(std::span<const std::byte, kMacKeyBytes> key, std::span<const std::byte> bytes,
                 std::span<std::byte, kMacBytes> mac) {
  crypto::initialise();
  crypto_generichash(reinterpret_cast<unsigned char*>(mac.data()), mac.size(),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     reinterpret_cast<const unsigned char*>(key.data()), key.size());
}

bool check_mac(std::span<const std::byte, kMacKeyBytes> key, std::span<const std::byte> bytes,
               std::span<const std::byte, kMacBytes> mac) {
  std::array<std::byte, kMacBytes> expected;
  compute_mac(key, bytes, expected);
  return crypto::equal(expected, mac);
}

}  // namespace r2ccl
