// The place of the demo's hosts, which also breaks their NICs: a lab of namespaces, or, where the
// machine permits none, processes on loopback. There, NICs are addresses, and the library simulates
// their faults.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/demo/demo.h"
#include "tools/demo/demo_watch.h"
#include "tools/lab/lab_spec.h"

namespace r2ccl::tools {

class DemoStage {
 public:
  virtual ~DemoStage() = default;

  // Runs in the child process that becomes the host's rank.
  virtual int run_rank(int host, const std::function<int()>& body) const = 0;
  virtual Status fault(const LabTarget& target, const LabFault& fault) = 0;
  virtual Status fix(const LabTarget& target) = 0;
  // Returns the bytes since the start, by host and NIC; `watch` has the ranks' own counts.
  virtual Result<SentBytes> sent_bytes(const DemoWatch& watch) const = 0;
};

// Makes the lab, and removes it with the stage. Signals stay blocked from here on until a reader
// takes them (RankGroup does), so that none ends the demo between making the lab and removing it.
Result<std::unique_ptr<DemoStage>> make_lab_stage(const DemoOptions& options);

// Keeps the faults in `fault_file`, for R2CCL_FAULT_FILE. NIC k of host i is 127.0.(k+1).(i+1); the
// fault file also limits it to its rate.
Result<std::unique_ptr<DemoStage>> make_loopback_stage(const DemoOptions& options,
                                                       const std::string& fault_file);

// Returns a NIC's line of that file, or an error for a fault that a stream of bytes cannot
// simulate.
Result<std::string> fault_file_line(const std::string& address, double rate_bytes_per_s,
                                    const LabFault* fault);

}  // namespace r2ccl::tools
