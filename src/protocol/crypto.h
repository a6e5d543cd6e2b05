// The few uses of libsodium that the protocol makes: a running transcript hash, a keyed hash for
// proofs and keys, and a comparison in constant time. All are BLAKE2b (RFC 7693).
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace r2ccl::crypto {

inline constexpr size_t kHashBytes = 32;
using Hash = std::array<std::byte, kHashBytes>;

// Must precede any other use; cheap after the first call. Any thread.
void initialise();

// The hash of everything that both ends have said so far.
class Transcript {
 public:
  Transcript();
  void add(std::span<const std::byte> bytes);
  // Of all bytes added so far; more may be added afterwards.
  Hash digest() const;

 private:
  crypto_generichash_state state_;
};

// A pseudo-random function of (label, input) under `key`. Labels keep uses apart: no two uses of
// one key share a label, and no label is a prefix of another.
Hash derive(std::span<const std::byte, 32> key, std::string_view label,
            std::span<const std::byte> input);

// Unkeyed, for identifiers and checksums.
Hash hash(std::string_view label, std::span<const std::byte> input);

bool equal(std::span<const std::byte> a, std::span<const std::byte> b);
void wipe(std::span<std::byte> secret);

}  // namespace r2ccl::crypto
