// One rank of a benchmark as a function, for the bench command and the demo.
#pragma once

#include "tools/bench/bench_options.h"

namespace r2ccl::tools {

// Joins the job that the environment describes and runs the benchmark. Requires resolved `options`.
// Returns the exit status: 0, kExitFailed if an element was wrong, kExitError.
int run_bench_rank(const BenchOptions& options);

}  // namespace r2ccl::tools
