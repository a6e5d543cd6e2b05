// Algorithms in the XML of MSCCL, which msccl-tools writes and msccl-executor-nccl runs:
//
//   <algo name= coll= ngpus= nchunksperloop= inplace= ...>
//     <gpu id= s_chunks= ...>
//       <tb id= send= recv= chan=>
//         <step s= type= srcbuf= srcoff= dstbuf= dstoff= cnt= depid= deps= hasdep=/>
//
// A vector is cut into `nchunksperloop` equal chunks. A thread block runs its steps one after
// another. It sends to one GPU and receives from one, over a channel. Before a step it waits until
// thread block `depid` has ended step `deps`, which says so (`hasdep`).
//
// The reader ignores other attributes (proto, nchannels, minBytes, i_chunks, ...): they say how
// NCCL runs the algorithm, or follow from the collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace r2ccl::tools {

// Bounds of an algorithm that is read. They bound the memory of its import.
inline constexpr uint32_t kMscclChunksMax = 1 << 16;  // of a buffer
inline constexpr uint32_t kMscclBlocksMax = 1024;     // of a GPU
inline constexpr uint64_t kMscclCellsMax = 1 << 22;   // chunks of the buffers of all GPUs
inline constexpr uint64_t kMscclMovesMax = 1 << 20;   // chunks that all steps move

enum class MscclType : uint8_t {
  send,                      // s: source
  receive,                   // r: target
  receive_copy_send,         // rcs: target, which goes on
  receive_reduce_send,       // rrs: source + the bytes that arrive go on
  receive_reduce_copy,       // rrc: target = source + the bytes that arrive
  receive_reduce_copy_send,  // rrcs: the same, and target goes on
  copy,                      // cpy: target = source
  reduce,                    // re: target = target + source
  nop                        // waits alone
};

enum class MscclBuffer : uint8_t { input, output, scratch };

// Consecutive chunks, as many as the step has.
struct MscclChunks {
  MscclBuffer buffer = MscclBuffer::input;
  uint32_t first = 0;
  friend bool operator==(const MscclChunks&, const MscclChunks&) = default;
};

struct MscclStep {
  MscclType type = MscclType::nop;
  MscclChunks source;
  MscclChunks target;
  uint32_t count = 0;
  // The step that must end before: its thread block, by place in MscclGpu::blocks, and its number.
  struct Wait {
    uint32_t block = 0;
    uint32_t step = 0;
  };
  std::optional<Wait> waits_for;
  bool is_waited_for = false;
  size_t line = 0;
};

bool sends(MscclType type);
bool receives(MscclType type);
// Returns whether the step reads the chunks of its source, or writes those of its target.
bool has_source(MscclType type);
bool has_target(MscclType type);

struct MscclBlock {
  uint32_t id = 0;
  int32_t send_to = -1;
  int32_t receive_from = -1;
  int32_t channel = 0;
  std::vector<MscclStep> steps;
  size_t line = 0;
};

struct MscclGpu {
  uint32_t scratch_chunks = 0;
  std::vector<MscclBlock> blocks;
};

struct MscclAlgorithm {
  std::string name;
  Collective collective = Collective::all_reduce;
  bool in_place = false;
  uint32_t chunks = 0;  // of the vector of all ranks' blocks, where the collective has blocks
  std::vector<MscclGpu> gpus;
};

// Returns the algorithm. Its peers exist and its waits end at existing steps. An error begins with
// "line N: ".
Result<MscclAlgorithm> parse_msccl(std::string_view xml);

}  // namespace r2ccl::tools
