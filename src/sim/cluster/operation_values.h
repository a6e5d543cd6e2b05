// Inputs and expected outputs of operations. The values differ by rank, element and operation, and
// are exact in every type.
#pragma once

#include <cstddef>
#include <span>

#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

// Returns the number of elements of the input of one rank. The output has as many.
size_t input_count(const OperationSpec& spec, int ranks);
// Writes the input of the rank. `operation` is the number of the operation in the scenario.
void fill_input(const OperationSpec& spec, size_t operation, int rank, int ranks,
                std::span<std::byte> input);
// Writes the output that the rank must have, bit for bit.
void fill_expected(const OperationSpec& spec, size_t operation, int rank, int ranks,
                   std::span<std::byte> output);
// Returns whether the output is the same on all ranks.
bool expects_the_same(const OperationSpec& spec);
// Returns the number of wrong elements of the output.
size_t count_wrong(const OperationSpec& spec, std::span<const std::byte> output,
                   std::span<const std::byte> expected);

}  // namespace r2ccl::sim
