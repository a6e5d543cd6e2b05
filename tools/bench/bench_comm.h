// The C API as the bench uses it: results become Status with the library's own words, and small
// helpers let the ranks agree and gather over the communicator itself, with no side channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/bench/bench_options.h"

namespace r2ccl::tools {

class BenchComm {
 public:
  static Result<BenchComm> from_environment();
  BenchComm(BenchComm&& other) noexcept;
  BenchComm& operator=(BenchComm&&) = delete;
  ~BenchComm();  // aborts unless finish() was called, because an error must not wait for a peer

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Runs one operation to its end, from `in` to `out` (the same in place). `count`: elements of the
  // vector, or of all blocks. sendrecv sends to the next rank and receives from the previous one,
  // as in nccl-tests; tagged does so with tagged messages.
  Status run(const BenchOptions& options, const void* in, void* out, size_t count);
  Status barrier();

  // Replaces each element by its maximum over all ranks.
  Status agree_on_max(std::vector<int64_t>* values);
  Status agree_on_sum(std::vector<int64_t>* values);
  // Returns all ranks' texts in rank order at rank 0, and nothing elsewhere.
  Result<std::vector<std::string>> gather(const std::string& text);

  std::string report() const;  // r2cclCommReport; empty when there is none
  Status finish();

 private:
  BenchComm(r2cclComm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {}
  Status check(const char* call, r2cclResult_t result) const;
  Status send_receive(const BenchOptions& options, const void* in, void* out, size_t count);

  r2cclComm_t comm_;
  int rank_;
  int ranks_;
};

}  // namespace r2ccl::tools
