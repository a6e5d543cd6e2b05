// The work of a kernel as values, read from the structs that NCCL's host side has prepared for it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace r2ccl::emulated {

// The numbers of Operator, DataType, Protocol, Algorithm, WorkType and Storage are NCCL's.
enum class Operator { kSum, kProduct, kMinMax, kPreMulSum, kSumPostDiv };
enum class DataType {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
  kFloat8e4m3,
  kFloat8e5m2
};
enum class Protocol { kLl, kLl128, kSimple };
enum class Algorithm { kTree, kRing, kOther };
enum class WorkType { kPointToPoint, kCollective };
enum class Storage { kParameters, kFifo, kPersistent };

enum class Collective {
  kPointToPoint,
  kAllGather,
  kBroadcast,
  kAllGatherV,
  kAllReduce,
  kReduce,
  kReduceScatter
};

// A function of NCCL's device code.
struct DeviceFunction {
  Collective collective = Collective::kPointToPoint;
  Operator op = Operator::kSum;
  DataType type = DataType::kUint8;
  Algorithm algorithm = Algorithm::kOther;
  Protocol protocol = Protocol::kSimple;
};

// The parameters of a launch.
struct Parameters {
  const char* comm = nullptr;     // the communicator's struct for devices
  std::vector<int> channels;      // the n-th block of the grid serves the n-th of them
  const char* batches = nullptr;  // behind the parameters
  Storage storage = Storage::kParameters;
  const char* works = nullptr;       // the beginning of the storage
  uint32_t works_mask = UINT32_MAX;  // for offsets in the storage, if that is a ring
};

// Up to 64 works of one type: of the block's channel and the same device function.
struct Batch {
  int next = 0;              // batches from here to the next one of this channel, 0 for none
  bool is_extended = false;  // the next batch is a part of this one
  WorkType type = WorkType::kPointToPoint;
  size_t function = 0;
  uint32_t first_offset = 0;
  uint64_t works = 0;  // a bit for each place behind first_offset
};

// A part of a collective's elements and how the channel cuts it.
struct ChannelPart {
  int64_t whole_count = 0;  // the elements of all channels
  int64_t offset = 0;
  int64_t count = 0;
  int64_t chunk = 0;  // elements
};

struct CollectiveWork {
  int first_channel = 0;
  int last_channel = 0;
  std::array<int64_t, 3>
      counts{};  // the first channel's, that of each in the middle, the last one's
  std::array<int64_t, 3> chunk_grains{};  // likewise
  int root = 0;
  char* input = nullptr;
  char* output = nullptr;
  uint64_t reduction_argument = 0;
  bool argument_is_pointer = false;
  bool has_registered_buffer = false;

  ChannelPart part_of(int channel, int64_t grain_elements) const;
};

// One direction of a point-to-point work.
struct Transfer {
  char* memory = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  int channels = 0;  // the transfer's parts
  int64_t chunk_bytes = 0;
  bool is_ll = false;
};

struct PointToPointWork {
  Transfer send;
  Transfer receive;
  int channel_base = 0;
  int channels = 0;  // those of the communicator, a power of two
};

struct Ring {
  int previous = -1;
  int next = -1;
  int index = 0;               // this rank's place
  const int* ranks = nullptr;  // from this rank on
};

struct Tree {
  int up = -1;  // -1 at the root
  std::vector<int> down;
};

// A channel of the communicator, as its block of the kernel sees it.
struct Channel {
  int number = 0;
  int rank = 0;
  int ranks = 0;
  Ring ring;
  Tree tree;
  char* const* peers = nullptr;  // the connections with each rank
  const volatile uint32_t* abort_flag = nullptr;
  char* work_counter = nullptr;  // nullptr if this version has none
  int64_t ll_step_bytes = 0;
  int64_t simple_step_bytes = 0;
  int64_t point_to_point_step_bytes = 0;
};

inline constexpr int kStepsInFlight = 8;

}  // namespace r2ccl::emulated
