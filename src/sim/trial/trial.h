// Runs one scenario and holds it to everything that must be true of any run.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sim/cluster/data_path_check.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

// Something that a person who looks at the run wants to know of.
struct TrialNote {
  TimeNs at = 0;  // since the job's begin
  int rank = -1;  // -1: nobody's in particular
  std::string text;
};

// Something that lasted, for pictures.
struct TrialSpan {
  enum class What : uint8_t { operation, fault, suspect, down };
  What what = What::operation;
  int host = 0;
  int nic = -1;  // -1: the whole host
  TimeNs from = 0;
  TimeNs to = 0;
  std::string text;
};

struct TrialResult {
  std::vector<std::string> violations;  // empty: all is well
  uint64_t trace_hash = 0;              // equal for equal runs
  // What the run went through: "up -> suspect", "fault hole", "duplicate", ...
  std::set<std::string> covered;
  DataPathCheck::Seen seen;
  uint64_t elements = 0;    // checked
  uint64_t operations = 0;  // ended, on all ranks
  TimeNs simulated = 0;
  std::vector<TrialNote> notes;  // these two only when asked for
  std::vector<TrialSpan> spans;
};

TrialResult run_trial(const Scenario& scenario, bool with_notes = false);

}  // namespace r2ccl::sim
