// Runs AllReduces on a simulated, healthy network: bench/instruction_ratchet.py counts its
// instructions, which are the same in each run.
//   simulated_transfer HOSTS NICS BYTES OPERATIONS
#include <cstdio>

#include "positive_number.h"
#include "sim/trial/rate_trial.h"

int main(int argc, char** argv) {
  r2ccl::sim::RateTrial trial;
  if (argc != 5 || !r2ccl::parse_positive(argv[1], &trial.hosts) || !r2ccl::parse_positive(argv[2], &trial.nics) ||
      !r2ccl::parse_positive(argv[3], &trial.bytes) || !r2ccl::parse_positive(argv[4], &trial.operations)) {
    std::fprintf(stderr, "usage: simulated_transfer HOSTS NICS BYTES OPERATIONS\n");
    return 2;
  }
  const r2ccl::sim::RateOutcome outcome = r2ccl::sim::run(trial);
  if (!outcome.error.empty()) std::fprintf(stderr, "%s\n", outcome.error.c_str());
  return outcome.error.empty() ? 0 : 1;
}
