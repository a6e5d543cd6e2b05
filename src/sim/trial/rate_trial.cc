#include "sim/trial/rate_trial.h"

#include <algorithm>
#include <cstdio>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr size_t kColdOperations = 3;
constexpr uint64_t kBytesPerMegabit = 1'000'000 / 8;

ClusterOptions cluster_options(const RateTrial& trial) {
  ClusterOptions options;
  options.hosts = trial.hosts;
  options.nics = trial.nics;
  options.rate_bytes_per_s = trial.mbit * kBytesPerMegabit;
  options.world.network.latency_ns = trial.latency;
  options.world.network.stream.send_buffer_bytes = kGrownBufferBytes;
  options.world.network.stream.receive_buffer_bytes = kGrownBufferBytes;
  // bench/instruction_ratchet.py counts the work of an operation. Other trials check the
  // invariants.
  options.turns_per_check = 0;
  return options;
}

// A ring sends 2 (n - 1) / n of the bytes from each host, in 2 (n - 1) steps.
double least_time(const RateTrial& trial) {
  const double steps = 2.0 * (trial.hosts - 1);
  const double sent = steps / trial.hosts * static_cast<double>(trial.bytes);
  const double rate = trial.nics * static_cast<double>(trial.mbit * kBytesPerMegabit);
  return sent / rate * 1e9 + steps * static_cast<double>(trial.latency);
}

}  // namespace

std::vector<RateTrial> all_rate_trials() {
  std::vector<RateTrial> all;
  for (const int hosts : {2, 4}) {
    for (const int nics : {1, 2, 3, 4}) {
      for (const uint64_t mbit : {250u, 1'000u, 2'500u, 10'000u, 25'000u, 100'000u}) {
        for (const TimeNs latency : {5 * kMicrosecond, 50 * kMicrosecond}) {
          all.push_back({.hosts = hosts, .nics = nics, .mbit = mbit, .latency = latency});
        }
      }
    }
  }
  return all;
}

std::string describe(const RateTrial& trial) {
  char text[96];
  std::snprintf(text, sizeof text, "%d hosts x %d NICs of %.2f Gbit/s, %lld us", trial.hosts,
                trial.nics, static_cast<double>(trial.mbit) / 1e3,
                static_cast<long long>(trial.latency / kMicrosecond));
  return text;
}

double RateOutcome::median() const {
  if (ratios.size() <= kColdOperations) return 0;
  std::vector<double> warm(ratios.begin() + kColdOperations, ratios.end());
  std::ranges::sort(warm);
  return warm[warm.size() / 2];
}

RateOutcome run(const RateTrial& trial) {
  RateOutcome outcome;
  Cluster cluster(cluster_options(trial));
  if (!cluster.connect()) return {"the paths do not connect", {}};
  AllReduceJob job(cluster, trial.bytes / sizeof(int64_t));
  job.start(trial.operations);
  const auto limit = static_cast<TimeNs>(100 * trial.operations * least_time(trial));
  if (!cluster.world().run_until([&] { return job.finished(); }, cluster.now() + limit)) {
    return {"the operations take a hundred times as long as they should", {}};
  }
  outcome.error = job.error();
  if (job.wrong() > 0) outcome.error = std::to_string(job.wrong()) + " elements are wrong";
  for (const AllReduceJob::Run& operation : job.operations()) {
    outcome.ratios.push_back(static_cast<double>(operation.ended - operation.began) /
                             least_time(trial));
  }
  return outcome;
}

}  // namespace r2ccl::sim
