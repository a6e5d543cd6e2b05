#include "sim/training/serving.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "sim/training/random_times.h"

namespace r2ccl::sim {
namespace {

// Larger passes are rounded up to multiples of this, so that few AllReduces are simulated.
constexpr uint64_t kTokensStep = 64;

double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::llround(share * last));
  std::ranges::nth_element(values, at);
  return *at;
}

struct Request {
  double arrived_s = 0;
  double latest_s = 0;  // when its latest token came
  uint32_t tokens = 0;  // made so far
};

class ServingRun {
 public:
  ServingRun(ServingTimes& times, ServingStrategy strategy, const ServingCosts& costs)
      : times_(times), job_(times.job()), strategy_(strategy), costs_(costs) {
    live_.assign(job_.cluster.hosts, job_.cluster.nics);
    Random random(job_.seed);
    const double mean = 1 / job_.requests_per_s;
    for (double at = exponential(random, mean); at < job_.duration_s;
         at += exponential(random, mean)) {
      waiting_.push_back({.arrived_s = at});
    }
    failure_due_ = strategy_ != ServingStrategy::none;
  }

  Result<ServingOutcome> run() {
    while (!waiting_.empty() || !open_.empty()) {
      if (failure_due_ && now_ >= job_.failure_at_s) R2CCL_RETURN_IF_ERROR(fail());
      if (open_.empty()) now_ = std::max(now_, waiting_.front().arrived_s);
      const bool admits =
          !waiting_.empty() && waiting_.front().arrived_s <= now_ && open_.size() < job_.batch;
      R2CCL_RETURN_IF_ERROR(admits ? prefill() : decode());
    }
    ServingOutcome outcome;
    outcome.tokens = gaps_.size() + firsts_.size();
    outcome.token_p50_s = quantile(gaps_, 0.5);
    outcome.token_p99_s = quantile(gaps_, 0.99);
    outcome.token_max_s = quantile(gaps_, 1);
    outcome.first_p99_s = quantile(firsts_, 0.99);
    outcome.mean_token_s = token_sum_s_ / static_cast<double>(std::max<size_t>(ended_, 1));
    return outcome;
  }

 private:
  Status pass(uint64_t tokens) {
    const Result<double> time = times_.pass(tokens, live_, plan_for_);
    R2CCL_RETURN_IF_ERROR(time.status());
    now_ += time.value();
    return {};
  }

  Status prefill() {
    Request request = waiting_.front();
    waiting_.pop_front();
    R2CCL_RETURN_IF_ERROR(pass(uint64_t{job_.prompt} + request.tokens));
    take_token(request);
    if (request.tokens < job_.output) open_.push_back(request);
    return {};
  }

  Status decode() {
    R2CCL_RETURN_IF_ERROR(pass(open_.size()));
    for (Request& request : open_) take_token(request);
    std::erase_if(open_, [this](const Request& each) { return each.tokens >= job_.output; });
    return {};
  }

  void take_token(Request& request) {
    if (request.tokens == 0) {
      firsts_.push_back(now_ - request.arrived_s);
    } else {
      gaps_.push_back(now_ - request.latest_s);
    }
    request.latest_s = now_;
    if (++request.tokens < job_.output) return;
    ++ended_;
    token_sum_s_ += (now_ - request.arrived_s) / job_.output;
  }

  Status fail() {
    failure_due_ = false;
    switch (strategy_) {
      case ServingStrategy::none:
        return {};
      case ServingStrategy::r2ccl:
      case ServingStrategy::balanced:
        now_ += costs_.stall_s;
        live_[0] -= job_.failed;
        plan_for_ = strategy_ == ServingStrategy::r2ccl ? PlanFor::view : PlanFor::healthy;
        return {};
      case ServingStrategy::restart:
        now_ += costs_.restart_s;
        waiting_.insert(waiting_.begin(), open_.begin(), open_.end());
        open_.clear();
        return {};
      case ServingStrategy::replicate:
        now_ += costs_.takeover_s;
        return open_.empty() ? Status() : pass(open_.size() * costs_.replayed_tokens);
    }
    return {};
  }

  ServingTimes& times_;
  const ServingJob& job_;
  const ServingStrategy strategy_;
  const ServingCosts costs_;
  LiveNics live_;
  PlanFor plan_for_ = PlanFor::healthy;
  bool failure_due_ = false;
  double now_ = 0;
  std::deque<Request> waiting_;  // in the order of their arrival
  std::vector<Request> open_;
  std::vector<double> gaps_;
  std::vector<double> firsts_;
  double token_sum_s_ = 0;
  size_t ended_ = 0;
};

}  // namespace

Status check_job(const ServingJob& job) {
  R2CCL_RETURN_IF_ERROR(check_gpu_cluster(job.cluster));
  const auto bad = [](const char* what) { return Status{Code::invalid_argument, what}; };
  if (job.model.parameters <= 0 || job.model.layers == 0 || job.model.hidden == 0) {
    return bad("a model has parameters, layers and a hidden size");
  }
  if (job.prompt == 0 || job.output == 0) return bad("a request has a prompt and an answer");
  if (job.batch == 0) return bad("a batch has at least one request");
  if (!std::isfinite(job.requests_per_s) || job.requests_per_s <= 0) {
    return bad("requests arrive at a positive rate");
  }
  if (!std::isfinite(job.duration_s) || job.duration_s <= 0) {
    return bad("requests arrive for a positive time");
  }
  if (job.requests_per_s * job.duration_s * job.output > kServingTokensMax) {
    return bad("more than 100 million tokens; take fewer requests or a shorter time");
  }
  if (!std::isfinite(job.failure_at_s) || job.failure_at_s < 0) {
    return bad("NICs fail after zero or more seconds");
  }
  if (job.failed >= job.cluster.nics) return bad("a host that serves keeps one NIC at least");
  return {};
}

Result<double> ServingTimes::pass(uint64_t tokens, const LiveNics& live, PlanFor plan_for) {
  const GpuCluster& cluster = job_.cluster;
  if (tokens > kPassTokensMax) {
    return Status{Code::invalid_argument,
                  "a pass has " + std::to_string(tokens) + " tokens, and at most " +
                      std::to_string(kPassTokensMax) +
                      " are simulated; take a shorter prompt, a smaller batch or fewer tokens to "
                      "replay"};
  }
  if (tokens > job_.batch) tokens = (tokens + kTokensStep - 1) / kTokensStep * kTokensStep;
  const double gpus = static_cast<double>(cluster.hosts) * cluster.gpus;
  const double weights = kElementBytes * job_.model.parameters;
  const double compute =
      2 * job_.model.parameters * static_cast<double>(tokens) / gpus / cluster.flops();
  const double bytes = kElementBytes * static_cast<double>(tokens) * job_.model.hidden;
  const Result<double> between =
      collectives_.all_reduce(static_cast<uint64_t>(bytes), live, plan_for);
  R2CCL_RETURN_IF_ERROR(between.status());
  const double reduce = between.value() + intra_all_reduce_s(cluster, cluster.gpus, bytes);
  return std::max(compute, weights / gpus / cluster.memory_rate) + 2 * job_.model.layers * reduce;
}

Result<ServingOutcome> ServingTimes::run(ServingStrategy strategy, const ServingCosts& costs) {
  return ServingRun(*this, strategy, costs).run();
}

}  // namespace r2ccl::sim
