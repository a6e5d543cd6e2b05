// The rules that a build with mutants can break, by name.
#pragma once

#include <string>

#include "base/mutant.h"
#include "base/status.h"

namespace r2ccl::tools {

Result<Mutant> mutant_named(const std::string& name);
int list_mutants();

}  // namespace r2ccl::tools
