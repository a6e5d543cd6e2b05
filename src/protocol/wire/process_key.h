// A key pair by which other processes hand this one a secret, over a channel that strangers read
// and write: X25519 with XSalsa20-Poly1305, the `crypto_box` of NaCl (Bernstein, Lange, Schwabe
// 2012). A box opens for its reader and its writer alone.
// The caller puts into it which of the two has sealed it, and what for.
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <span>

#include "protocol/wire/locked_bytes.h"

namespace r2ccl::crypto {

inline constexpr size_t kPublicKeyBytes = crypto_box_PUBLICKEYBYTES;
inline constexpr size_t kBoxBytes = crypto_box_NONCEBYTES + crypto_box_MACBYTES;
using PublicKey = std::array<std::byte, kPublicKeyBytes>;

class ProcessKey {
 public:
  ProcessKey();

  const PublicKey& public_key() const { return public_; }
  // `boxed` has kBoxBytes more than `plain`. Returns false when `reader` is no key of a process.
  bool seal(const PublicKey& reader, std::span<const std::byte> plain,
            std::span<std::byte> boxed) const;
  // Returns false, and leaves zeros in `plain`, when no box between `writer` and this one is
  // unchanged.
  bool open(const PublicKey& writer, std::span<const std::byte> boxed,
            std::span<std::byte> plain) const;

 private:
  PublicKey public_;
  LockedBytes secret_;
};

}  // namespace r2ccl::crypto
