// Failures of NICs during a training job, and the goodput that several strategies keep.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "sim/training/training.h"

namespace r2ccl::sim {

struct NicEvent {
  double at_s = 0;
  uint32_t host = 0;
  bool fails = true;  // false: one of the host's NICs is repaired
};

struct FailureTrace {
  double duration_s = 0;
  std::vector<NicEvent> events;  // in the order of their times
};

// Returns failures of so many NICs at the begin, which last. The seed chooses them among all NICs.
// Requires no more than there are.
FailureTrace fixed_failures(const GpuCluster& cluster, uint32_t failed, double duration_s,
                            uint64_t seed);
// Each NIC fails at random after `mtbf_s` seconds in the mean, and is repaired `repair_s` later.
FailureTrace random_failures(const GpuCluster& cluster, double mtbf_s, double repair_s,
                             double duration_s, uint64_t seed);

enum class Strategy : uint8_t {
  r2ccl,     // stalls, and goes on with the plan for the view
  balanced,  // stalls, and goes on with the healthy plan over the NICs that are alive
  restart,   // loses half a checkpoint interval and the restart; a spare host takes over
  drop       // as AdapCC: drops the replicas of the host, until it is repaired
};

inline constexpr std::array<Strategy, 4> kStrategies = {Strategy::r2ccl, Strategy::balanced,
                                                        Strategy::restart, Strategy::drop};

// The time without progress that each failure costs.
struct FailureCosts {
  double stall_s = 0.03;
  double checkpoint_interval_s = 1800;
  double restart_s = 300;
  double rebuild_s = 10;  // of communicators without, or again with, a replica
};

struct TraceOutcome {
  double goodput = 0;       // the work done, over that of a job without failures
  double overhead_pct = 0;  // the time for the same work, over that without failures; infinite
                            // where nothing is done
  double iteration_s = 0;   // the mean time between stalls for the work of a healthy iteration
};

// Returns the share that the strategy keeps over a trace. A failure during a pause makes it longer.
Result<TraceOutcome> run_trace(TrainingTimes& times, const FailureTrace& trace, Strategy strategy,
                               const FailureCosts& costs);

}  // namespace r2ccl::sim
