// One rank of a job that runs rounds of a collective: every type with every reduction once, each
// operation checked in full on every rank. collective_fault_test.py breaks NICs meanwhile, and
// names the collective of the next rounds in a file. Rank 0 prints a JSON line for each operation,
// with the elements of all ranks.
//   usage: collective_rounds FILE   FILE holds the name of a collective, or "end"
#include <cinttypes>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/bench/bench_comm.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_run.h"

namespace r2ccl::tools {
namespace {

const std::vector<std::string> kCollectives = {
    "all_reduce", "reduce",  "broadcast", "all_gather", "reduce_scatter",
    "gather",     "scatter", "alltoall",  "sendrecv",   "tagged"};
const std::vector<std::string> kIntegers = {"int8", "uint8", "int32", "uint32", "int64", "uint64"};
const std::vector<std::string> kFloats = {"float16", "bfloat16", "float32", "float64"};
const std::vector<std::string> kReductions = {"sum", "prod", "max", "min", "avg"};
const std::vector<std::string> kBitwise = {"band", "bor", "bxor"};
// A message that is complete at its sender at once, an odd one of several chunks, and one that is
// under way for some milliseconds.
const std::vector<uint64_t> kBytes = {4096, 100'004, 262'144};

// One operation of a round. A bench numbers its operations, so that no two have the same values.
struct Operation {
  BenchOptions options;
  std::unique_ptr<Bench> bench;
};

class Rounds {
 public:
  explicit Rounds(BenchComm* comm) : comm_(comm) {}

  // Makes the operations of a collective.
  Status begin(const std::string& collective) {
    operations_.clear();
    for (const auto* types : {&kIntegers, &kFloats}) {
      for (const std::string& type : *types) {
        std::vector<std::string> reductions = kReductions;
        if (types == &kIntegers) {
          reductions.insert(reductions.end(), kBitwise.begin(), kBitwise.end());
        }
        BenchOptions options;
        options.collective_name = collective;
        options.type_name = type;
        R2CCL_RETURN_IF_ERROR(resolve(&options));
        if (!reduces(options.collective)) reductions = {"sum"};
        for (const std::string& reduction : reductions) {
          options.redop_name = reduction;
          R2CCL_RETURN_IF_ERROR(add(options));
        }
      }
    }
    return Status::ok_status();
  }

  // Runs each operation once. Size, root and placement change from round to round.
  Status run() {
    for (size_t i = 0; i < operations_.size(); ++i) {
      R2CCL_RETURN_IF_ERROR(run_one(&operations_[i], i + rounds_));
    }
    ++rounds_;
    std::fflush(stdout);
    return Status::ok_status();
  }

 private:
  Status add(BenchOptions options) {
    options.iterations = 1;
    options.warmup = 0;
    options.bytes_min = std::to_string(kBytes.back());
    R2CCL_RETURN_IF_ERROR(resolve(&options));
    Operation& added = operations_.emplace_back();
    added.options = options;
    added.bench = std::make_unique<Bench>(added.options, comm_, clock_, &progress_);
    return Status::ok_status();
  }

  Status run_one(Operation* operation, size_t turn) {
    BenchOptions& options = operation->options;
    const uint64_t bytes = kBytes[turn % kBytes.size()];
    options.root = static_cast<int>(turn) % comm_->ranks();
    const bool in_place = turn % 2 == 1 && (options.collective == Collective::all_reduce ||
                                            options.collective == Collective::broadcast);
    const TimeNs begin = clock_.now();
    R2CCL_RETURN_IF_ERROR(operation->bench->measure(bytes, in_place));
    if (comm_->rank() != 0) return Status::ok_status();
    const BenchRun& run = operation->bench->runs().back();
    std::printf(
        "{\"collective\": \"%s\", \"type\": \"%s\", \"op\": \"%s\", \"begin\": %.6f, "
        "\"end\": %.6f, \"checked\": %" PRIu64 ", \"wrong\": %" PRIu64 "}\n",
        options.collective_name.c_str(), options.type_name.c_str(),
        reduces(options.collective) ? options.redop_name.c_str() : "",
        static_cast<double>(begin) / 1e9, static_cast<double>(clock_.now()) / 1e9,
        run.checked_elements, run.wrong_elements);
    return Status::ok_status();
  }

  BenchComm* comm_;
  SystemClock clock_;
  BenchProgress progress_;
  std::deque<Operation> operations_;  // their addresses stay
  size_t rounds_ = 0;
};

// Returns the index of the collective that the file names, as rank 0 reads it; -1 at the end.
Result<int64_t> next_collective(const char* file, BenchComm* comm) {
  std::vector<int64_t> index = {-1};
  if (comm->rank() == 0) {
    std::string name;
    std::ifstream(file) >> name;
    for (size_t i = 0; i < kCollectives.size(); ++i) {
      if (kCollectives[i] == name) index[0] = static_cast<int64_t>(i);
    }
  }
  R2CCL_RETURN_IF_ERROR(comm->agree_on_max(&index));
  return index[0];
}

Status run_rounds(const char* file, BenchComm* comm) {
  Rounds rounds(comm);
  for (int64_t last = -1;;) {
    Result<int64_t> wanted = next_collective(file, comm);
    if (!wanted.ok()) return wanted.status();
    if (wanted.value() < 0) return comm->finish();
    if (wanted.value() != last) {
      R2CCL_RETURN_IF_ERROR(rounds.begin(kCollectives[static_cast<size_t>(wanted.value())]));
    }
    last = wanted.value();
    R2CCL_RETURN_IF_ERROR(rounds.run());
  }
}

int run_rank(const char* file) {
  Result<BenchComm> comm = BenchComm::from_environment();
  const Status status = comm.ok() ? run_rounds(file, &comm.value()) : comm.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "collective_rounds: %s\n", status.message().c_str());
  return 2;
}

}  // namespace
}  // namespace r2ccl::tools

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: collective_rounds FILE\n");
    return 2;
  }
  return r2ccl::tools::run_rank(argv[1]);
}
