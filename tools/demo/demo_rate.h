// The rate of the demo's NICs. The demo shows a network, so its NICs are slow enough that the
// network is the limit and not the processor: measured first, in seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/bench/bench_options.h"
#include "tools/demo/demo.h"
#include "tools/demo/demo_stage.h"

namespace r2ccl::tools {

// The rate on a machine that can drive it, and the size of one operation at that rate.
inline constexpr double kDemoRateMbit = 250;
inline constexpr uint64_t kDemoBytes = 4 << 20;

// Returns the rate to try after one at which a job reached `share` of its line, with room for a
// machine that gets busier; nothing when that rate serves, or when there is no lower one.
std::optional<double> lower_demo_rate(double rate_mbit, double share);

// Returns the size of one operation, which takes as long at each rate: "4M" at kDemoRateMbit.
std::string demo_bytes(double rate_mbit);

// Returns the bus bytes per second of the operations in rank 0's log, from the first one's begin to
// the last one's end; 0 without operations.
double logged_rate(const std::string& op_log_file, double factor);

struct DemoPlace {
  DemoOptions options;  // with the rate and the size
  std::unique_ptr<DemoStage> stage;
  std::string reason;  // a sentence about the rate; empty: the caller gave it
};

using MakeStage = std::function<Result<std::unique_ptr<DemoStage>>(const DemoOptions&)>;

// Makes the stage. Where `options` has no rate, runs a job of two seconds at the highest rate, and
// at lower ones until the job reaches its line.
Result<DemoPlace> find_demo_place(const DemoOptions& options, const MakeStage& make,
                                  const std::string& folder);

}  // namespace r2ccl::tools
