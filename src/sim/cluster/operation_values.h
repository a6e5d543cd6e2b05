// Inputs and expected outputs of operations. The values differ by rank, element and operation, and
// are exact in every type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/plan.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

// An operation's memory on one rank, in elements. In place, `memory` holds input and output, which
// begin at different elements of it in some collectives.
struct OperationMemory {
  bool in_place = false;
  uint64_t input_count = 0;
  uint64_t output_count = 0;
  uint64_t input_at = 0;   // 0 unless in place
  uint64_t output_at = 0;  // 0 unless in place
  uint64_t memory_count() const {
    return std::max(input_at + input_count, output_at + output_count);
  }
};
OperationMemory memory_of(const OperationSpec& spec, int rank, int ranks);
// Memory without a value, before the operation and where it puts nothing.
inline constexpr std::byte kUnset{0xee};

// The messages between each two ranks in a `tagged` operation. They have kTags tags in turn, which
// no other operation has: operations may overlap.
inline constexpr int kTagged = 6;
inline constexpr int kTags = 3;
constexpr int32_t tag_of(size_t operation, uint64_t m) {
  return static_cast<int32_t>(operation * kTags + m % kTags);
}
// Returns the elements of message m: 0 to `count`.
uint64_t tagged_count(const OperationSpec& spec, int m);
// Returns where message m to or from the peer begins, in elements of the input or the output.
uint64_t tagged_at(const OperationSpec& spec, int peer, int m);

// Returns whether the operation is one call of a collective.
bool is_collective(const OperationSpec& spec);
bool reduces(const OperationSpec& spec);
// Returns the call of the rank, for a collective.
PlanKey plan_key_of(const OperationSpec& spec, int rank, int ranks);

// Writes the input of the rank. `operation` is the number of the operation in the scenario.
void fill_input(const OperationSpec& spec, size_t operation, int rank, std::span<std::byte> memory);
// Returns the scalar of the rank in a pre-multiplied sum.
Scalar scalar_of(const OperationSpec& spec, size_t operation, int rank);
// Writes the output that the rank must have, bit for bit.
void fill_expected(const OperationSpec& spec, size_t operation, int rank, int ranks,
                   std::span<std::byte> output);
// Returns whether the output is the same on all ranks.
bool expects_the_same(const OperationSpec& spec);
// Returns the number of wrong elements of the output.
size_t count_wrong(const OperationSpec& spec, std::span<const std::byte> output,
                   std::span<const std::byte> expected);

}  // namespace r2ccl::sim
