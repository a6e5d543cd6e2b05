// The one entry by which fuzzers reach the handshakes: any bytes, all four roles, any
// fragmentation.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The first byte chooses the role and the secret, the second the fragment size; the rest is what
// the peer sends. Checks the promises that must hold for every input: a peer without the key is
// never accepted, memory stays bounded, a failed handshake takes no more bytes.
void fuzz_handshake(std::span<const std::byte> input);

}  // namespace r2ccl
