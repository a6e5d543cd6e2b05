// The measurement: fills, runs, times and checks operations, alike on every rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "tools/bench/bench_comm.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_result.h"
#include "tools/bench/bench_values.h"

namespace r2ccl::tools {

// Counters that the event stream reads during the measurement. Their order is relaxed: the reader
// may be an operation behind.
struct BenchProgress {
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> checked_elements{0};
  std::atomic<uint64_t> wrong_elements{0};
};

class Bench {
 public:
  Bench(const BenchOptions& options, BenchComm* comm, const Clock& clock, BenchProgress* progress);

  // Measures one size in one placement. Collective. After an error runs() still has the operations
  // that this rank completed.
  Status measure(uint64_t bytes, bool in_place);
  const std::vector<BenchRun>& runs() const { return runs_; }

 private:
  Status run_warmup();
  Status run_for_duration();
  // Runs some operations back to back (with checks: each after a barrier).
  Status run_batch(int operations, bool timed);
  Status run_one(bool timed);
  void fill_input();
  uint64_t part_count() const;    // elements of a block
  uint64_t result_count() const;  // elements that this rank receives
  uint64_t count_wrong() const;
  // Check `count` elements of the result. They belong to the input, from its element `first` on.
  uint64_t count_wrong_reduced(uint64_t count, uint64_t first) const;
  uint64_t count_wrong_copied(uint64_t at, uint64_t count, int rank, uint64_t first) const;
  // Checks a block from each rank.
  uint64_t count_wrong_parts(uint64_t first) const;
  Status combine_over_ranks();
  Status combine_times(BenchRun* run);
  BenchRun& current() { return runs_.back(); }
  void* input() { return current_in_place_ ? out_.get() : in_.get(); }

  const BenchOptions& options_;
  BenchComm* comm_;
  const Clock& clock_;
  BenchProgress* progress_;
  BenchValues values_;
  std::unique_ptr<std::byte[]> in_, out_;
  uint64_t iteration_ = 0;  // counts all operations, so that no two have the same values
  bool current_in_place_ = false;
  TimeNs ready_ = 0;  // the last time when this rank had only the next operation to do
  std::vector<BenchRun> runs_;
};

}  // namespace r2ccl::tools
