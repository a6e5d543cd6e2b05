// Which operations a run has checked, and under which faults: rows of scripts/coverage_table.py.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/cluster/fault_script.h"
#include "sim/cluster/mixed_job.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

// Begins each text of a checked combination: "checked all_reduce, float32, sum" and "checked
// all_reduce, pull".
inline constexpr const char* kChecked = "checked ";

// Adds the combinations of the operations whose elements were all checked. A fault counts for the
// operations that ran while it was in force.
void cover(const Scenario& scenario, const std::vector<MixedJob::Span>& operations,
           const std::vector<FaultScript::Span>& faults, std::set<std::string>& covered);

}  // namespace r2ccl::sim
