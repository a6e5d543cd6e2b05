// Fuzzes the messages between ranks and the rendezvous.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The first byte chooses a decoder, or a sealed stream whose peer lacks the keys. The rest is the
// peer's input. Checks that a decoded message encodes to the same bytes, that no refusal decodes to
// a success, and that the stream delivers no message and keeps at most one record.
void fuzz_rendezvous(std::span<const std::byte> input);

}  // namespace r2ccl
