// The chunks of an algorithm of MSCCL in the memory of a call, and what its steps put there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/holdings.h"
#include "plan/plan.h"
#include "tools/plan/msccl_order.h"
#include "tools/plan/msccl_xml.h"

namespace r2ccl::tools {

// The memory of one rank, in chunks. Places number all its chunks: first those of the caller, where
// the input and the output may share some, then the scratch.
class MscclMemory {
 public:
  // Requires a key whose buffers are whole numbers of chunks of so many elements.
  MscclMemory(const PlanKey& key, Rank rank, uint64_t elements, uint32_t scratch_chunks);

  uint64_t chunks_in(MscclBuffer buffer) const;
  uint64_t size() const { return user_ + scratch_; }
  // Requires that the chunk is in its buffer.
  size_t place_of(const MscclChunks& chunks) const;
  // Returns the elements of the chunks. In place, those that are part of the output are named so:
  // plans do not write what is input alone.
  Region region_of(const MscclChunks& chunks, uint64_t count) const;
  // Requires scratch beyond that of the algorithm.
  Region scratch_region(uint64_t place, uint64_t count) const;

 private:
  uint64_t elements_;
  uint64_t input_;
  uint64_t output_;
  uint64_t input_at_;
  uint64_t output_at_;
  uint64_t user_;
  uint64_t scratch_;
};

std::vector<MscclMemory> memories_of(const PlanKey& key, const MscclAlgorithm& algorithm,
                                     uint64_t elements);

// A chunk of a step.
struct MscclChunkOf {
  size_t node = SIZE_MAX;
  uint32_t chunk = 0;
  bool exists() const { return node != SIZE_MAX; }
};

struct MscclValues {
  // By node and chunk, for those that reduce: the result has the inputs of all ranks.
  std::vector<std::vector<bool>> complete;
  // By node and chunk, for those that only receive: the step `re` that adds this chunk to another.
  std::vector<std::vector<MscclChunkOf>> added_by;
};

// Follows the values through the algorithm. Fails where a step uses a chunk that its buffer lacks,
// and where `re` has no chunk to add that came by `r` and is used nowhere else: plans reduce only
// what arrives.
Result<MscclValues> values_of(const MscclOrder& order, const std::vector<MscclMemory>& memories);

}  // namespace r2ccl::tools
