// Averages the gradients of several layers while the next ones are computed. Every call gets a
// request and returns at once; the vector must stay in place until the request is complete.
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

constexpr int kLayers = 4;
constexpr size_t kWeights = 100000;

// Stands for the backward pass of one layer.
std::vector<double> compute_gradient(int layer, int rank) {
  return std::vector<double>(kWeights, 10.0 * layer + rank);
}

}  // namespace

int main() {
  r2cclComm_t comm;
  int rank;
  check(r2cclCommInitEnv(&comm, nullptr));
  check(r2cclCommUserRank(comm, &rank));

  std::vector<std::vector<double>> gradients(kLayers);
  std::vector<r2cclRequest_t> requests(kLayers);
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<double>& gradient = gradients[layer];
    gradient = compute_gradient(layer, rank);
    check(r2cclAllReduce(gradient.data(), gradient.data(), kWeights, r2cclFloat64, r2cclAvg, comm,
                         &requests[layer]));
  }
  for (int layer = 0; layer < kLayers; ++layer) {
    check(r2cclRequestWait(&requests[layer], 60'000));  // a minute at most; -1: no bound
    if (rank == 0) std::printf("layer %d: mean %g\n", layer, gradients[layer].back());
  }
  check(r2cclCommDestroy(comm));
  return 0;
}
