// Runs simulated trials in worker processes, so that a trial that aborts or hangs is a finding and
// not the end of the search.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutant.h"
#include "base/status.h"

namespace r2ccl::tools {

struct SeedOutcome {
  uint64_t seed = 0;
  std::string violation;  // the first violation; empty: none
  uint64_t trace_hash = 0;
  uint64_t resent = 0;  // chunks
  double simulated_s = 0;
  std::vector<std::string> covered;
};

struct SimPoolOptions {
  uint64_t first = 0;
  uint64_t last = 0;   // inclusive
  int workers = 0;     // 0: one for each processor that this process may use
  bool twice = false;  // runs each seed again, and requires the same run
  Mutant mutant = Mutant::none;
  TimeNs seed_time_max = 60 * kSecond;  // processor time; a seed that needs more does not end
};

// Calls `on_outcome` as seeds end, in no particular order, until it returns false or all have
// ended.
Status run_seeds(const SimPoolOptions& options,
                 const std::function<bool(const SeedOutcome&)>& on_outcome);

}  // namespace r2ccl::tools
