// The protocol's few uses of libsodium: a running transcript hash, a keyed hash for proofs and keys
// (both BLAKE2b, RFC 7693), sealed records (ChaCha20-Poly1305, RFC 8439), and a comparison in
// constant time. The key agreement is in cpace.h.
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

// The hash of all bytes that both ends have exchanged so far.
class Transcript {
 public:
  Transcript();
  void add(std::span<const std::byte> bytes);
  // Returns the digest of all bytes added so far; the caller may add more afterwards.
  Hash digest() const;

 private:
  crypto_generichash_state state_;
};

// Returns a pseudo-random function of (label, input) under `key`. Labels keep uses apart: no two
// uses of one key share a label, and no label is a prefix of another.
Hash derive(Key key, std::string_view label, std::span<const std::byte> input);
// Does the same for keys: the result is never anywhere but in `out`, or in locked memory. The
// inputs count as one text, so at most the last of them may vary in size.
using Inputs = std::initializer_list<std::span<const std::byte>>;
void derive_into(std::span<std::byte, kHashBytes> out, Key key, std::string_view label,
                 Inputs inputs);
LockedBytes derive_key(Key key, std::string_view label, Inputs inputs);

// Returns an unkeyed hash, for identifiers and checksums.
Hash hash(std::string_view label, std::span<const std::byte> input);

// Encrypts one record and authenticates it together with `header`, which stays readable. `number`
// must never repeat under one key.
inline constexpr size_t kSealBytes = 16;
void seal(Key key, uint64_t number, std::span<const std::byte> header,
          std::span<const std::byte> plain, std::span<std::byte> out);
// Returns false, and writes nothing to `out`, when any byte was altered.
bool open(Key key, uint64_t number, std::span<const std::byte> header,
          std::span<const std::byte> sealed, std::span<std::byte> out);

}  // namespace r2ccl::crypto
