// The one entry by which fuzzers reach the handshake: any bytes, both roles, any fragmentation.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The first byte chooses the role and the authentication, the second the fragment size; the rest is
// what the peer sends. Checks the promises that must hold for every input: an unauthenticated peer
// is never accepted, memory stays bounded, a failed handshake takes no more bytes.
void fuzz_handshake(std::span<const std::byte> input);

}  // namespace r2ccl
