// Runs AllReduces on a simulated, healthy network of many ranks, for bench/sim_scale.py:
//   simulated_scale RANKS NICS BYTES OPERATIONS ring|hd
// Prints one line of JSON: the processor time of the start and of the operations, the simulated time
// of the operations, and the most memory that the process had. Under callgrind with
// --instr-atstart=no, only the operations are counted.
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "positive_number.h"
#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

namespace r2ccl::sim {
namespace {

// Each path learns its rate, and each rank makes its plan.
constexpr int kWarmup = 2;
constexpr uint64_t kRateBytesPerS = 1'250'000'000;  // 10 Gbit/s
constexpr TimeNs kLimit = 60 * kSecond;             // simulated

struct Scale {
  int ranks = 0;
  int nics = 0;
  uint64_t bytes = 0;
  int operations = 0;
  Algorithm algorithm = Algorithm::ring;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

int failed(const char* why) {
  std::fprintf(stderr, "simulated_scale: %s\n", why);
  return 1;
}

ClusterOptions cluster_options(const Scale& scale) {
  ClusterOptions options;
  options.hosts = scale.ranks;
  options.nics = scale.nics;
  options.rate_bytes_per_s = kRateBytesPerS;
  options.turns_per_check = 0;
  return options;
}

int run(const Scale& scale) {
  const double began = processor_seconds();
  Cluster cluster(cluster_options(scale));
  if (!cluster.connect()) return failed("the paths do not connect");
  const double started = processor_seconds();
  AllReduceJob job(cluster, scale.bytes / sizeof(int64_t), scale.algorithm);
  const auto all = [&](int operations) {
    job.start(operations);
    const auto done = [&] { return job.finished(); };
    return cluster.world().run_until(done, cluster.now() + kLimit);
  };
  if (!all(kWarmup)) return failed("the operations do not end");
  const double warm = processor_seconds();
  const TimeNs from = cluster.now();
  CALLGRIND_START_INSTRUMENTATION;
  const bool done = all(kWarmup + scale.operations);
  CALLGRIND_STOP_INSTRUMENTATION;
  if (!done) return failed("the operations do not end");
  const double ended = processor_seconds();
  if (job.wrong() > 0 || !job.error().empty()) return failed("an operation is wrong");
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"start_s\": %.3f, \"operations_s\": %.3f, \"simulated_ms\": %.3f, \"memory_kb\": %ld, "
      "\"checked_elements\": %llu}\n",
      started - began, ended - warm, static_cast<double>(cluster.now() - from) / 1e6,
      usage.ru_maxrss, static_cast<unsigned long long>(job.checked()));
  return 0;
}

}  // namespace
}  // namespace r2ccl::sim

int main(int argc, char** argv) {
  using namespace r2ccl::sim;
  Scale scale;
  if (argc != 6 || !r2ccl::parse_positive(argv[1], &scale.ranks) || !r2ccl::parse_positive(argv[2], &scale.nics) ||
      !r2ccl::parse_positive(argv[3], &scale.bytes) || !r2ccl::parse_positive(argv[4], &scale.operations)) {
    std::fprintf(stderr, "usage: simulated_scale RANKS NICS BYTES OPERATIONS ring|hd\n");
    return 2;
  }
  const bool ring = std::strcmp(argv[5], "ring") == 0;
  scale.algorithm = ring ? r2ccl::Algorithm::ring : r2ccl::Algorithm::halving_doubling;
  return run(scale);
}
