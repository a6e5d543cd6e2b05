// The entry by which fuzzers reach the reader of data frames: headers of any bytes, with a tag that
// fits or without, each with its payload or a part of it.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// Checks what must hold for every input: whoever owns the reader hears only of headers that were
// sealed, in their order, and their payload goes where it said.
void fuzz_frame_reader(std::span<const std::byte> input);

}  // namespace r2ccl
