// Runs one scenario and checks every rule that holds for any run.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sim/cluster/data_path_check.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

// An event of interest to a person who inspects the run.
struct TrialNote {
  TimeNs at = 0;  // since the start of the job
  int rank = -1;  // -1: of no particular rank
  std::string text;
};

// A state that lasted, for pictures.
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
  std::vector<std::string> violations;  // empty: the run keeps every rule
  uint64_t trace_hash = 0;              // equal for equal runs
  // The events of the run: "up -> suspect", "fault hole", "duplicate", ...
  std::set<std::string> covered;
  DataPathCheck::Seen seen;
  uint64_t elements = 0;    // number of elements checked
  uint64_t operations = 0;  // number that ended, on all ranks
  TimeNs simulated = 0;
  std::vector<TrialNote> notes;  // `notes` and `spans` are filled only on request
  std::vector<TrialSpan> spans;
};

TrialResult run_trial(const Scenario& scenario, bool with_notes = false);

}  // namespace r2ccl::sim
