// Fuzzes the messages of the fault localiser, as from a hostile rank. The first byte chooses the
// kind of the body. The libFuzzer program and a unit test share this, so that both run everywhere.
#pragma once

#include <cstddef>
#include <span>

namespace r2ccl {

void fuzz_blame(std::span<const std::byte> input);

}  // namespace r2ccl
