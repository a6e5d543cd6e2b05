// Runs AllReduces back to back on every rank of a cluster and checks every element of each result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"

namespace r2ccl::sim {

class AllReduceJob {
 public:
  // Each operation reduces `count` elements of eight bytes.
  AllReduceJob(Cluster& cluster, uint64_t count, Algorithm algorithm = Algorithm::automatic);
  // Aborts the runtimes when operations still run, because these write into the job's buffers.
  ~AllReduceJob();

  // Each rank runs `iterations` operations and starts the next one from the completion of the last.
  void start(int iterations);
  // Returns whether every rank has ended all its operations, or one operation has ended with an
  // error.
  bool finished() const;
  // From now on the job ignores completions: a test expects the running operations to fail.
  void abandon() { abandoned_ = true; }

  uint64_t wrong() const { return wrong_; }
  uint64_t checked() const { return checked_; }
  // Returns the first error of an operation, or an empty text when every operation has succeeded.
  const std::string& error() const { return error_; }
  TimeNs longest() const { return longest_; }
  TimeNs last_duration() const { return last_; }
  // The times when the first rank began an operation, and when the last rank ended it.
  struct Run {
    TimeNs began = kNever;
    TimeNs ended = 0;
  };
  const std::vector<Run>& operations() const { return operations_; }

 private:
  void next(int rank);
  void finish(int rank, TimeNs began);

  Cluster& cluster_;
  const uint64_t count_;
  const Algorithm algorithm_;
  int iterations_ = 0;
  bool abandoned_ = false;
  std::vector<std::vector<int64_t>> buffers_;
  std::vector<std::vector<int64_t>> results_;
  std::vector<int> done_;
  std::vector<Run> operations_;
  std::string error_;
  uint64_t wrong_ = 0;
  uint64_t checked_ = 0;
  TimeNs longest_ = 0;
  TimeNs last_ = 0;
};

}  // namespace r2ccl::sim
