// A program for NCCL with one thread for each device, ported: the lines of NCCL stand beside the
// lines that replace them. Buffers are in host memory, and a request takes the place of a stream.
// docs/porting_nccl.md has the other calls.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kRanks = 4;
constexpr size_t kCount = 1 << 20;

void run(int rank, r2cclUniqueId id, std::string* line) {
  // cudaSetDevice(rank);
  r2cclComm_t comm;                                   // ncclComm_t comm;
  check(r2cclCommInitRank(&comm, kRanks, id, rank));  // ncclCommInitRank(&comm, nRanks, id, rank);

  // cudaMalloc(&sendbuff, count * sizeof(float)); cudaMalloc(&recvbuff, ...);
  std::vector<float> sendbuff(kCount, static_cast<float>(rank + 1)), recvbuff(kCount);
  r2cclRequest_t request;  // cudaStream_t stream; cudaStreamCreate(&stream);

  // ncclAllReduce(sendbuff, recvbuff, count, ncclFloat, ncclSum, comm, stream);
  check(r2cclAllReduce(sendbuff.data(), recvbuff.data(), kCount, r2cclFloat, r2cclSum, comm,
                       &request));
  check(r2cclRequestWait(&request, -1));  // cudaStreamSynchronize(stream);

  // ncclBroadcast(recvbuff, recvbuff, count, ncclFloat, 0, comm, stream);
  check(r2cclBroadcast(recvbuff.data(), recvbuff.data(), kCount, r2cclFloat, 0, comm, &request));
  check(r2cclRequestWait(&request, -1));

  *line = "rank " + std::to_string(rank) + ": " + std::to_string(recvbuff.back());
  check(r2cclCommDestroy(comm));  // ncclCommFinalize(comm); ncclCommDestroy(comm);
}

}  // namespace

int main() {
  r2cclUniqueId id;
  check(r2cclGetUniqueId(&id));  // ncclGetUniqueId(&id);
  std::vector<std::string> lines(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(run, rank, id, &lines[rank]);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  return 0;
}
