// AllReduces back to back on every rank of a cluster, every element of every one checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"

namespace r2ccl::sim {

class AllReduceJob {
 public:
  // Of `count` elements of eight bytes.
  AllReduceJob(Cluster& cluster, uint64_t count);
  // Cancels what still runs: it writes into the job's buffers.
  ~AllReduceJob();

  // Each rank runs `iterations` operations, starting the next from the completion of the last.
  void start(int iterations);
  // Every rank has ended all of them, or one has ended with an error.
  bool finished() const;
  // What is running will not end well, and that is right.
  void abandon() { abandoned_ = true; }

  uint64_t wrong() const { return wrong_; }
  uint64_t checked() const { return checked_; }
  // The first error that an operation ended with; empty: none did.
  const std::string& error() const { return error_; }
  TimeNs longest() const { return longest_; }
  TimeNs last_duration() const { return last_; }
  // When the first rank began each operation, and when the last rank had it.
  struct Operation {
    TimeNs began = kNever;
    TimeNs ended = 0;
  };
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  void next(int rank);
  void finish(int rank, TimeNs began);

  Cluster& cluster_;
  const uint64_t count_;
  int iterations_ = 0;
  bool abandoned_ = false;
  std::vector<std::vector<int64_t>> buffers_;
  std::vector<std::vector<int64_t>> results_;
  std::vector<int> done_;
  std::vector<Operation> operations_;
  std::string error_;
  uint64_t wrong_ = 0;
  uint64_t checked_ = 0;
  TimeNs longest_ = 0;
  TimeNs last_ = 0;
};

}  // namespace r2ccl::sim
