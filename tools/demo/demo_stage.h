// Where the demo's hosts live and how their NICs break: a lab of namespaces, or, where none may be
// made, processes on loopback whose NICs are addresses and whose faults the library acts out.
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

  // For the child process that becomes the host's rank.
  virtual int run_rank(int host, const std::function<int()>& body) const = 0;
  virtual Status fault(const LabTarget& target, const LabFault& fault) = 0;
  virtual Status fix(const LabTarget& target) = 0;
  // Since the start, by host and NIC; `watch` knows what the ranks say.
  virtual Result<SentBytes> sent_bytes(const DemoWatch& watch) const = 0;
};

// The lab is removed with the stage. Interruptions wait from here on for somebody to read them
// (RankGroup does), so that none ends the demo between making the lab and removing it.
Result<std::unique_ptr<DemoStage>> make_lab_stage(const DemoOptions& options);

// Keeps the faults in `fault_file`, for R2CCL_FAULT_FILE. NIC k of host i is 127.0.(k+1).(i+1),
// and held to its rate in the same way.
Result<std::unique_ptr<DemoStage>> make_loopback_stage(const DemoOptions& options,
                                                       const std::string& fault_file);

// A NIC's line of that file; an error for a fault that a stream of bytes cannot act out.
Result<std::string> fault_file_line(const std::string& address, double rate_bytes_per_s,
                                    const LabFault* fault);

}  // namespace r2ccl::tools
