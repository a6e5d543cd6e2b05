// A verdict in the log.
#pragma once

#include <string>

#include "protocol/diagnosis/verdict.h"
#include "runtime/peers/job_map.h"

namespace r2ccl {

// Returns the component that the verdict names, with the names of hosts.
std::string words_for(const Verdict& verdict, const JobMap& job);
// `replaces`: an earlier, less precise verdict.
void log_verdict(const std::string& subject, const Verdict& verdict, bool replaces);

}  // namespace r2ccl
