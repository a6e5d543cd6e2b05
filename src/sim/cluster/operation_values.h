// What ranks put into an operation, and what must come out of it: values that differ by rank,
// element and operation, and are exact in every type.
#pragma once

#include <cstddef>
#include <span>

#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

// Elements of the input, and of the output, of one rank.
size_t input_count(const OperationSpec& spec, int ranks);
// `operation`: its number in the scenario.
void fill_input(const OperationSpec& spec, size_t operation, int rank, int ranks,
                std::span<std::byte> input);
// What the output must be, bit for bit.
void fill_expected(const OperationSpec& spec, size_t operation, int rank, int ranks,
                   std::span<std::byte> output);
// It is the same on all ranks.
bool expects_the_same(const OperationSpec& spec);
// Elements of the output that are not what they must be.
size_t count_wrong(const OperationSpec& spec, std::span<const std::byte> output,
                   std::span<const std::byte> expected);

}  // namespace r2ccl::sim
