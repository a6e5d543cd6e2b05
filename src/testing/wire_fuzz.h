// Fuzzes the wire codec: any bytes as a data header, as the header of a control frame, or as its
// body.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The first byte chooses the decoder, and the rest is its input. Checks for every input that an
// accepted value is within the bounds that the readers rely on, and encodes to a value that decodes
// to the same.
void fuzz_wire(std::span<const std::byte> input);

}  // namespace r2ccl
