// The options of `r2ccl bench`: names and sizes as in nccl-tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "r2ccl/r2ccl.h"

namespace r2ccl::tools {

enum class Collective {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  sendrecv,
  tagged,
  alltoall,
  barrier
};
// Returns whether the size is that of equal blocks for all ranks together.
bool has_blocks(Collective collective);
bool reduces(Collective collective);
bool is_rooted(Collective collective);
// Returns whether the bench measures it in place, too.
bool has_in_place(Collective collective);

struct BenchOptions {
  std::string collective_name = "all_reduce";
  std::string type_name = "float";
  std::string redop_name = "sum";
  std::string bytes_min = "32M", bytes_max, step_bytes;
  std::optional<int> step_factor;
  int iterations = 20;
  int warmup = 5;
  std::string check_text = "1";  // "" is --check without a number: 1
  int root = 0;
  bool in_place_only = false;
  bool out_of_place_only = false;
  double duration_s = 0;   // 0: `iterations` operations of each size
  std::string until_file;  // a run of some duration ends when this file exists
  int local_ranks = 0;     // ranks to fork here; 0: the launcher started this rank
  std::string json_file, op_log_file, events_file;
  int events_ms = 100;

  // Derived by resolve().
  Collective collective = Collective::all_reduce;
  r2cclDataType_t type = r2cclFloat32;
  r2cclRedOp_t redop = r2cclSum;
  bool check = false;
  std::vector<uint64_t> sizes;  // bytes, as the user gave them
  uint64_t bytes_last = 0;      // the largest that the user gave, whether a step meets it or not
};

// Fills the derived fields. An error names the option.
Status resolve(BenchOptions* options);

size_t type_bytes(r2cclDataType_t type);
// Returns `bytes` rounded up to a measurable size: whole elements, and for alltoall equal parts.
uint64_t whole_bytes(const BenchOptions& options, uint64_t bytes, int ranks);

// Returns bus bandwidth over algorithm bandwidth, as nccl-tests defines it. The factor makes the
// result comparable to the speed of one port for any number of ranks
// (nccl-tests/doc/PERFORMANCE.md).
double bus_factor(Collective collective, int ranks);

}  // namespace r2ccl::tools
