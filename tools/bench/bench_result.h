// The results of a benchmark as values: tables, logs and JSON are made from these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/bench/bench_options.h"

namespace r2ccl::tools {

// One timed operation. Starts are rank 0's, and gaps the largest over all ranks. If all ranks read
// the clock of one machine, an operation lasts from the start of its last rank to the end of its
// last rank: so operations that overlap, as those with a root may, count once. Otherwise it lasts
// as long as on its slowest rank.
struct TimedOperation {
  TimeNs start = 0;
  TimeNs duration = 0;
  TimeNs gap = 0;  // since the previous completion, less the time for filling and checking
};

// All operations of one size in one placement.
struct BenchRun {
  uint64_t bytes = 0;
  uint64_t count = 0;
  bool in_place = false;
  std::vector<TimedOperation> operations;
  // The sum of one rank's durations; the largest over all ranks. Where ranks leave an operation
  // before others, it is less than the sum over the slowest ranks.
  TimeNs total = 0;
  uint64_t checked_elements = 0;  // over all ranks
  uint64_t wrong_elements = 0;

  double time_us() const;  // of one operation, as in nccl-tests: the total over their number
};

struct Bandwidth {
  double algorithm = 0;  // bytes/s
  double bus = 0;
};
Bandwidth bandwidth(const BenchOptions& options, int ranks, const BenchRun& run);

struct OperationTimes {
  double p50_ms = 0, p99_ms = 0, max_ms = 0;
};
OperationTimes operation_times(const std::vector<BenchRun>& runs);
// Returns the longest time between two completions.
double max_gap_ms(const std::vector<BenchRun>& runs);

// Returns the part of a rank's r2cclCommReport that result_json() and the verdicts need, as a text
// of the same form. A report has a line for each path of each peer: those of a large job would keep
// rank 0 busy for longer than the job.
std::string needed_part(const std::string& report);

// Returns the JSON document; `reports` are the needed parts of the ranks' reports.
std::string result_json(const BenchOptions& options, int ranks, const std::vector<BenchRun>& runs,
                        const std::vector<std::string>& reports);

// Return the table of nccl-tests, line for line, so that scripts which parse that parse this.
std::string table_header(const BenchOptions& options, int ranks);
std::string table_row_start(const BenchOptions& options, const BenchRun& run);
std::string table_row_part(const BenchOptions& options, int ranks, const BenchRun* run);
std::string table_footer(const BenchOptions& options, int ranks, const std::vector<BenchRun>& runs);

// Returns a text with one line for each operation: number, start, duration and gap.
std::string operation_log(const std::vector<BenchRun>& runs);

}  // namespace r2ccl::tools
