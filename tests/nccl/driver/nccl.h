// The part of NCCL's interface that the driver uses, declared here so that it compiles without
// NCCL. The functions are looked up in the library that this process has loaded.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace driver {

// An operation of NCCL has failed, or a condition that the test needs does not hold.
class Broken : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace driver

namespace nccl {

// The numbers of these enumerations are NCCL's.
enum class Result { kSuccess = 0, kInProgress = 7 };
enum class DataType { kInt32 = 2, kUint32 = 3, kFloat32 = 7, kFloat64 = 8 };
enum class RedOp { kSum = 0, kMax = 2, kMin = 3, kAvg = 4 };
inline constexpr int kNoColor = -1;

struct UniqueId {
  std::array<char, 128> bytes;
};
using Comm = struct Opaque*;
using Stream = void*;

template <typename Signature>
class Function;

// A function by its name.
template <typename Returned, typename... Arguments>
class Function<Returned(Arguments...)> {
 public:
  explicit Function(const char* name)
      : function_(reinterpret_cast<Returned (*)(Arguments...)>(dlsym(RTLD_DEFAULT, name))) {
    if (function_ == nullptr) throw driver::Broken(std::string("NCCL has no function ") + name);
  }
  Returned operator()(Arguments... arguments) const { return function_(arguments...); }

 private:
  Returned (*function_)(Arguments...);
};

struct Functions {
  Function<Result(int*)> get_version{"ncclGetVersion"};
  Function<Result(UniqueId*)> get_unique_id{"ncclGetUniqueId"};
  Function<const char*(Result)> get_error_string{"ncclGetErrorString"};
  Function<const char*(Comm)> get_last_error{"ncclGetLastError"};
  Function<Result(Comm, Result*)> comm_get_async_error{"ncclCommGetAsyncError"};

  Function<Result(Comm*, int, UniqueId, int)> comm_init_rank{"ncclCommInitRank"};
  Function<Result(Comm, int, int, Comm*, void*)> comm_split{"ncclCommSplit"};
  Function<Result(Comm)> comm_finalize{"ncclCommFinalize"};
  Function<Result(Comm)> comm_destroy{"ncclCommDestroy"};
  Function<Result(Comm)> comm_abort{"ncclCommAbort"};
  Function<Result(Comm, int*)> comm_count{"ncclCommCount"};
  Function<Result(Comm, int*)> comm_user_rank{"ncclCommUserRank"};

  Function<Result()> group_start{"ncclGroupStart"};
  Function<Result()> group_end{"ncclGroupEnd"};
  Function<Result(const void*, void*, size_t, DataType, RedOp, Comm, Stream)> all_reduce{
      "ncclAllReduce"};
  Function<Result(const void*, void*, size_t, DataType, RedOp, Comm, Stream)> reduce_scatter{
      "ncclReduceScatter"};
  Function<Result(const void*, void*, size_t, DataType, Comm, Stream)> all_gather{"ncclAllGather"};
  Function<Result(const void*, void*, size_t, DataType, int, Comm, Stream)> broadcast{
      "ncclBroadcast"};
  Function<Result(const void*, void*, size_t, DataType, RedOp, int, Comm, Stream)> reduce{
      "ncclReduce"};
  Function<Result(const void*, size_t, DataType, int, Comm, Stream)> send{"ncclSend"};
  Function<Result(void*, size_t, DataType, int, Comm, Stream)> recv{"ncclRecv"};
};

// Returns the functions of the NCCL that this process has loaded.
const Functions& functions();

}  // namespace nccl

// The CUDA runtime's functions that the driver uses; the emulator has them.
extern "C" {
int cudaMalloc(void** memory, size_t bytes);
int cudaFree(void* memory);
int cudaStreamCreate(void** stream);
int cudaStreamDestroy(void* stream);
int cudaStreamQuery(void* stream);
int cudaStreamSynchronize(void* stream);
}
