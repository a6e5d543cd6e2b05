// The latency of a language model that answers requests, tensor parallel over all GPUs of a few
// hosts, when NICs fail.
//
// Requests arrive at random and are batched continuously: while a place is free, the next request's
// prompt passes through the model (prefill) and the others wait; then each pass makes one token for
// every request (decode). A pass takes the longer one of its computation and of reading the
// weights, plus two AllReduces a layer: within each host, and between the hosts.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "sim/training/collective_times.h"
#include "sim/training/job_shape.h"

namespace r2ccl::sim {

struct ServingJob {
  GpuCluster cluster{.hosts = 2};
  ModelShape model;
  uint32_t prompt = 1024;  // tokens of each request
  uint32_t output = 256;   // tokens of each answer
  uint32_t batch = 32;     // requests at a time
  double requests_per_s = 2;
  double duration_s = 120;  // in which requests arrive
  double failure_at_s = 60;
  uint32_t failed = 1;  // NICs, all of host 0
  uint64_t seed = 1;
};

inline constexpr double kServingTokensMax = 1e8;
// The AllReduce of a longer pass takes minutes to simulate.
inline constexpr uint64_t kPassTokensMax = uint64_t{1} << 20;

// Returns an error that names the value which no job has.
Status check_job(const ServingJob& job);

enum class ServingStrategy : uint8_t {
  none,      // no NIC fails
  r2ccl,     // stalls, and goes on with the plan for the view
  balanced,  // stalls, and goes on with the healthy plan over the NICs that are alive
  restart,   // starts again on spare hosts, and computes all tokens of open requests anew
  replicate  // as DejaVu: spare hosts load replicas of the tokens' state, and replay the last ones
};

inline constexpr std::array<ServingStrategy, 5> kServingStrategies = {
    ServingStrategy::none, ServingStrategy::r2ccl, ServingStrategy::balanced,
    ServingStrategy::restart, ServingStrategy::replicate};

// The cost of a failure.
struct ServingCosts {
  double stall_s = 0.03;
  double restart_s = 60;
  double takeover_s = 1;         // until the spare hosts have the replicas
  uint32_t replayed_tokens = 8;  // of each open request
};

struct ServingOutcome {
  double token_p50_s = 0;  // between a token and the next one of its request
  double token_p99_s = 0;
  double token_max_s = 0;
  double first_p99_s = 0;   // from the arrival to the first token
  double mean_token_s = 0;  // from the arrival to the last token, for each token
  uint64_t tokens = 0;
};

class ServingTimes {
 public:
  // Requires check_job().
  explicit ServingTimes(const ServingJob& job) : job_(job), collectives_(job.cluster) {}

  // Returns the seconds of a pass of so many tokens. Fails where these are more than
  // kPassTokensMax.
  Result<double> pass(uint64_t tokens, const LiveNics& live, PlanFor plan_for);
  // Returns the latencies of a run. Each strategy meets the same requests.
  Result<ServingOutcome> run(ServingStrategy strategy, const ServingCosts& costs);
  const ServingJob& job() const { return job_; }

 private:
  const ServingJob job_;
  CollectiveTimes collectives_;
};

}  // namespace r2ccl::sim
