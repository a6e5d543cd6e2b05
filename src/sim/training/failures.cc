#include "sim/training/failures.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "sim/training/random_times.h"

namespace r2ccl::sim {
namespace {

class TraceRun {
 public:
  TraceRun(TrainingTimes& times, Strategy strategy, const FailureCosts& costs, double healthy_s)
      : times_(times),
        strategy_(strategy),
        costs_(costs),
        healthy_s_(healthy_s),
        live_(times.healthy()) {}

  Status run(const FailureTrace& trace) {
    double now = 0;
    for (const NicEvent& event : trace.events) {
      R2CCL_RETURN_IF_ERROR(work(event.at_s - now));
      now = event.at_s;
      live_[event.host] = event.fails ? live_[event.host] - 1 : live_[event.host] + 1;
      pause_s_ += cost_of(event);
      speed_known_ = false;
    }
    return work(trace.duration_s - now);
  }

  TraceOutcome outcome(double duration_s) const {
    const double none = std::numeric_limits<double>::infinity();
    if (work_s_ <= 0) return {0, none, none};
    return {work_s_ / duration_s, (duration_s / work_s_ - 1) * 100,
            healthy_s_ * running_s_ / work_s_};
  }

 private:
  // Adds the work of so many seconds. Pauses come first.
  Status work(double seconds) {
    const double paused = std::min(seconds, pause_s_);
    pause_s_ -= paused;
    if (seconds <= paused) return {};
    if (!speed_known_) {
      const Result<double> speed = speed_now();
      R2CCL_RETURN_IF_ERROR(speed.status());
      speed_ = speed.value();
      speed_known_ = true;
    }
    running_s_ += seconds - paused;
    work_s_ += (seconds - paused) * speed_;
    return {};
  }

  double cost_of(const NicEvent& event) const {
    if (strategy_ == Strategy::drop) return costs_.rebuild_s;
    if (!event.fails) return 0;
    if (strategy_ == Strategy::restart) return costs_.checkpoint_interval_s / 2 + costs_.restart_s;
    return costs_.stall_s;
  }

  // Returns the speed in parts of a job without failures.
  Result<double> speed_now() {
    if (strategy_ == Strategy::restart) return 1.0;
    if (strategy_ == Strategy::drop) return whole_replicas() / times_.replicas();
    const PlanFor plan_for = strategy_ == Strategy::r2ccl ? PlanFor::view : PlanFor::healthy;
    const Result<Iteration> iteration = times_.iteration(live_, plan_for);
    R2CCL_RETURN_IF_ERROR(iteration.status());
    return healthy_s_ / iteration.value().total_s;
  }

  double whole_replicas() const {
    const uint32_t hosts = times_.job().model.pipeline;
    double whole = 0;
    for (auto begin = live_.begin(); begin != live_.end(); begin += hosts) {
      whole += std::all_of(begin, begin + hosts,
                           [&](uint32_t nics) { return nics == times_.job().cluster.nics; });
    }
    return whole;
  }

  TrainingTimes& times_;
  const Strategy strategy_;
  const FailureCosts costs_;
  const double healthy_s_;
  LiveNics live_;
  bool speed_known_ = false;
  double speed_ = 1;
  double pause_s_ = 0;
  double running_s_ = 0;
  double work_s_ = 0;
};

}  // namespace

FailureTrace fixed_failures(const GpuCluster& cluster, uint32_t failed, double duration_s,
                            uint64_t seed) {
  std::vector<uint32_t> nics(size_t{cluster.hosts} * cluster.nics);
  R2CCL_CHECK(failed <= nics.size());
  std::iota(nics.begin(), nics.end(), 0U);
  Random random(seed);
  FailureTrace trace{duration_s, {}};
  for (size_t i = 0; i < failed; ++i) {
    std::swap(nics[i], nics[i + random.below(nics.size() - i)]);
    trace.events.push_back({.at_s = 0, .host = nics[i] / cluster.nics, .fails = true});
  }
  return trace;
}

FailureTrace random_failures(const GpuCluster& cluster, double mtbf_s, double repair_s,
                             double duration_s, uint64_t seed) {
  Random random(seed);
  FailureTrace trace{duration_s, {}};
  for (uint32_t nic = 0; nic < cluster.hosts * cluster.nics; ++nic) {
    const uint32_t host = nic / cluster.nics;
    double at = exponential(random, mtbf_s);
    for (; at < duration_s; at += exponential(random, mtbf_s)) {
      trace.events.push_back({at, host, true});
      at += repair_s;
      if (at < duration_s) trace.events.push_back({at, host, false});
    }
  }
  std::ranges::stable_sort(trace.events, {}, &NicEvent::at_s);
  return trace;
}

Result<TraceOutcome> run_trace(TrainingTimes& times, const FailureTrace& trace, Strategy strategy,
                               const FailureCosts& costs) {
  const Result<Iteration> healthy = times.iteration(times.healthy(), PlanFor::healthy);
  R2CCL_RETURN_IF_ERROR(healthy.status());
  TraceRun run(times, strategy, costs, healthy.value().total_s);
  R2CCL_RETURN_IF_ERROR(run.run(trace));
  return run.outcome(trace.duration_s);
}

}  // namespace r2ccl::sim
