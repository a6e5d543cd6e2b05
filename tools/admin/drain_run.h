// `r2ccl drain`: takes a NIC of running jobs out of service, so that its cable may be pulled, and
// gives it back.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

namespace r2ccl::tools {

struct DrainOptions {
  std::string host;
  std::string nic;
  bool undo = false;
  uint32_t pid = 0;  // 0: any
  std::string comm;  // the beginning of its id
  double timeout_s = 10;
  std::set<uid_t> heeded;  // other users whose jobs may refuse the drain
};

// Returns the exit status of the command.
int run_drain(const DrainOptions& options);

}  // namespace r2ccl::tools
