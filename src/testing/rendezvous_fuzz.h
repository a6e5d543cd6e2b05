// The entry by which fuzzers reach what ranks and the rendezvous say to each other.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The first byte chooses a decoder, or a sealed stream whose peer lacks the keys; the rest is what
// the peer sends. Checks that what is decoded encodes to the same bytes, that no refusal is a
// success, and that the stream delivers nothing and keeps no more than a record.
void fuzz_rendezvous(std::span<const std::byte> input);

}  // namespace r2ccl
