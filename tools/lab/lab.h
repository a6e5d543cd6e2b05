// A lab: a small cluster inside one machine. Hosts are namespaces, each with shaped NICs plugged
// into one switch a rail, and a management network. The caller can break and repair NICs, switches
// and cables while programs run. docs/lab.md tells how to use it.
//
// The state is in /run/r2ccl-lab/NAME (lab_folder.h), so that one command makes a lab and another
// uses it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/lab/lab_spec.h"

namespace r2ccl::tools {

struct NicBytes {
  std::string device;
  uint64_t tx = 0;
  uint64_t rx = 0;
};

class Lab {
 public:
  // Returns whether this machine permits a lab: privileges and programs.
  static Status available();

  // Makes the lab, replacing one of the same name. Leaves nothing behind after an error.
  static Result<Lab> up(const LabSpec& spec);
  // Returns the lab that another process made.
  static Result<Lab> open(const std::string& name);
  // Removes the lab and every process in it, also the rest of a half-made or damaged one. A missing
  // lab is no error.
  static Status down(const std::string& name);

  const LabSpec& spec() const { return spec_; }

  Status fault(const LabTarget& target, const LabFault& fault);
  Status fix(const LabTarget& target);
  Status fix_all();
  // Undoes the black hole of `pause`, and no other fault.
  Status unhole(const LabTarget& target);

  // Moves the calling single-threaded process into the host; for use between fork and exec.
  Status enter(int host) const;
  // Returns the counters of the host's interfaces: NICs in order, then mgmt.
  Result<std::vector<NicBytes>> bytes(int host) const;

 private:
  Lab(LabSpec spec, std::vector<pid_t> holders)
      : spec_(std::move(spec)), holders_(std::move(holders)) {}
  static Result<Lab> build(const LabSpec& spec);
  Status run_port_scripts(const LabTarget& target,
                          const std::vector<struct PortScripts>& scripts) const;

  LabSpec spec_;
  std::vector<pid_t> holders_;
};

}  // namespace r2ccl::tools
