// The grey line of the demo's picture: the same faults under Gloo, measured by bench/demo_gloo.py.
#pragma once

#include <span>

namespace r2ccl::tools {

// The rate of each of its NICs.
inline constexpr double kDemoGlooRateMbit = 250;

// Returns bus MB/s in each tenth of a second, for the demo's default lab, size and schedule.
std::span<const float> demo_gloo_mbps();
// Returns the version and the date.
const char* demo_gloo_source();

}  // namespace r2ccl::tools
