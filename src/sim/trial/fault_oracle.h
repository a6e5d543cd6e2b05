// Knows the effects of a scenario's faults: which paths may go down and come back when, and which
// verdicts are deserved.
#pragma once

#include "protocol/diagnosis/fault_localiser.h"
#include "runtime/link/link.h"
#include "sim/cluster/fault_script.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

class FaultOracle {
 public:
  // Both must outlive this.
  FaultOracle(const Scenario& scenario, const FaultScript& faults)
      : scenario_(scenario), faults_(faults) {}

  // Something was wrong with an end of the path that this rank took out of use.
  bool guilty(int rank, const PathEvent& event) const;
  // The path came back although full-size frames did not pass.
  bool returned_too_soon(int rank, const PathEvent& event) const;
  // The verdict names something that was wrong at `at`.
  bool deserved(const Verdict& verdict, TimeNs at) const;

 private:
  bool was_tampered(const Verdict& verdict, TimeNs at) const;
  bool alone_on_rail(const NicName& name, TimeNs at) const;
  bool troubled(const NicName& name, TimeNs at) const;

  const Scenario& scenario_;
  const FaultScript& faults_;
};

}  // namespace r2ccl::sim
