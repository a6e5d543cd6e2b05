// Fuzzes the handshakes: any bytes, all four roles, any fragmentation.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The first byte chooses the role and the secret, the second byte the fragment size. The rest is
// the peer's input. Checks for every input that a peer without the key is never accepted, memory
// stays bounded, and a failed handshake takes no more bytes.
void fuzz_handshake(std::span<const std::byte> input);

}  // namespace r2ccl
