// Whether a control group bounds the processor time of this process, so that the time of a spin is
// taken from its work.
#pragma once

#include <string>

namespace r2ccl {

// Looks at the process's own group and at all groups above it, of cgroup v2 and of v1's controller.
// `root`: the directory that holds proc/ and sys/, for tests.
bool has_cpu_quota(const std::string& root = "");

}  // namespace r2ccl
