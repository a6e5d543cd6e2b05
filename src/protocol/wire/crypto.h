// The few uses of libsodium that the protocol makes: a running transcript hash, a keyed hash for
// proofs and keys (both BLAKE2b, RFC 7693), sealed records (ChaCha20-Poly1305, RFC 8439), and a
// comparison in constant time. The key agreement is in cpace.h.
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "protocol/wire/locked_bytes.h"

namespace r2ccl::crypto {

inline constexpr size_t kHashBytes = 32;
using Hash = std::array<std::byte, kHashBytes>;
using Key = std::span<const std::byte, 32>;

// Must precede any other use; cheap after the first call. Any thread.
void initialise();

bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

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
Hash derive(Key key, std::string_view label, std::span<const std::byte> input);
// The same for keys: the result is never anywhere but in `out`, or in locked memory. The inputs
// count as one text, so at most the last of them may vary in size.
using Inputs = std::initializer_list<std::span<const std::byte>>;
void derive_into(std::span<std::byte, kHashBytes> out, Key key, std::string_view label,
                 Inputs inputs);
LockedBytes derive_key(Key key, std::string_view label, Inputs inputs);

// Unkeyed, for identifiers and checksums.
Hash hash(std::string_view label, std::span<const std::byte> input);

// One record, encrypted and authenticated together with `header`, which stays readable. `number`
// never repeats under one key.
inline constexpr size_t kSealBytes = 16;
void seal(Key key, uint64_t number, std::span<const std::byte> header,
          std::span<const std::byte> plain, std::span<std::byte> out);
// False, and nothing in `out`, when any byte was altered.
bool open(Key key, uint64_t number, std::span<const std::byte> header,
          std::span<const std::byte> sealed, std::span<std::byte> out);

}  // namespace r2ccl::crypto
