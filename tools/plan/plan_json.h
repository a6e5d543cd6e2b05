// The JSON form of plans, as `r2ccl plan show --json` prints it, in the direction back.
#pragma once

#include <string>

#include "base/status.h"

namespace r2ccl::tools {

// Returns the text form (plan/text/plan_text.h) of a plan in JSON. It takes what the text form has,
// and ignores all else. A value of the wrong type is an error; other mistakes remain for
// parse_plan().
Result<std::string> plan_text_of_json(const std::string& form);

}  // namespace r2ccl::tools
