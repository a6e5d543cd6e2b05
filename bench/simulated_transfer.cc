// Runs AllReduces on a simulated, healthy network: bench/instruction_ratchet.py counts its
// instructions, which are the same in each run.
//   simulated_transfer HOSTS NICS BYTES OPERATIONS
#include <charconv>
#include <cstdio>
#include <cstring>

#include "sim/trial/rate_trial.h"

namespace {

template <typename T>
bool parse(const char* text, T* value) {
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, *value);
  return error == std::errc{} && rest == end && *value > 0;
}

}  // namespace

int main(int argc, char** argv) {
  r2ccl::sim::RateTrial trial;
  if (argc != 5 || !parse(argv[1], &trial.hosts) || !parse(argv[2], &trial.nics) ||
      !parse(argv[3], &trial.bytes) || !parse(argv[4], &trial.operations)) {
    std::fprintf(stderr, "usage: simulated_transfer HOSTS NICS BYTES OPERATIONS\n");
    return 2;
  }
  const r2ccl::sim::RateOutcome outcome = r2ccl::sim::run(trial);
  if (!outcome.error.empty()) std::fprintf(stderr, "%s\n", outcome.error.c_str());
  return outcome.error.empty() ? 0 : 1;
}
