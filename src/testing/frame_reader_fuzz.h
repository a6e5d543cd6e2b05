// Fuzzes the reader of data frames with headers of any bytes, with a valid or an invalid tag, each
// with its payload or a part of it.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

// Checks for every input that the reader's owner receives only sealed headers, in their order, and
// that their payload goes to the owner's destination.
void fuzz_frame_reader(std::span<const std::byte> input);

}  // namespace r2ccl
