// The one entry by which fuzzers reach the wire codec: any bytes as a data header, as the header of
// a control frame, or as its body.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// The first byte chooses the decoder; the rest is what it gets. Checks what must hold for every
// input: what is accepted is within the bounds that the readers rely on, and means the same when it
// is said again.
void fuzz_wire(std::span<const std::byte> input);

}  // namespace r2ccl
