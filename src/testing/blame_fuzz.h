// What ranks tell each other of faults, from a hostile one: the first byte says which body follows.
// Shared by the libFuzzer program and a unit test, so that both run everywhere.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

void fuzz_blame(std::span<const std::byte> input);

}  // namespace r2ccl
