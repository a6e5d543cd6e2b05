#include "protocol/crypto.h"

#include "base/check.h"
#include "protocol/handshake.h"

namespace r2ccl::crypto {
namespace {

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Hash labelled_hash(std::span<const std::byte> key, std::string_view label,
                   std::span<const std::byte> input) {
  initialise();
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.empty() ? nullptr : raw(key), key.size(), kHashBytes);
  crypto_generichash_update(&state, raw(std::as_bytes(std::span(label))), label.size());
  crypto_generichash_update(&state, raw(input), input.size());
  Hash out;
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(out.data()), out.size());
  return out;
}

}  // namespace

void initialise() {
  static const bool ready = sodium_init() >= 0;
  R2CCL_CHECK(ready);
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
  crypto_generichash_final(&copy, reinterpret_cast<unsigned char*>(out.data()), out.size());
  return out;
}

Hash derive(std::span<const std::byte, 32> key, std::string_view label,
            std::span<const std::byte> input) {
  return labelled_hash(key, label, input);
}

Hash hash(std::string_view label, std::span<const std::byte> input) {
  return labelled_hash({}, label, input);
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(std::span<std::byte> secret) {
  sodium_memzero(secret.data(), secret.size());
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
