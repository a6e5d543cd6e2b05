// Writes a line of JSON periodically while a benchmark runs, for displays and fault trials:
// {"t": monotonic seconds, "rank": r, "host": "h0", "operations": n, "checked": n, "wrong": n,
//  "nics": {"nic0": {"tx": bytes, "rx": bytes}}, "verdicts": [the new ones]}
#pragma once

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "tools/bench/bench_comm.h"
#include "tools/bench/bench_run.h"

namespace r2ccl::tools {

// Returns the rank's own file: "%r" stands for the rank.
std::string events_path(const std::string& file, int rank);

class BenchEvents {
 public:
  // Writes to events_path(file), or to standard output if it is "-".
  static Result<std::unique_ptr<BenchEvents>> start(const std::string& file, int period_ms,
                                                    const BenchComm& comm, const Clock& clock,
                                                    const BenchProgress& progress);
  ~BenchEvents();  // writes a last line
  // Waits until the report names a dead process, for some seconds at most: the verdict on a death
  // is made later than the error, from the reports of all ranks.
  void await_death() const;

 private:
  BenchEvents(std::FILE* out, int period_ms, const BenchComm& comm, const Clock& clock,
              const BenchProgress& progress);
  void loop();
  void write_line();

  std::FILE* out_;
  int period_ms_;
  const BenchComm& comm_;
  const Clock& clock_;
  const BenchProgress& progress_;
  size_t verdicts_told_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace r2ccl::tools
