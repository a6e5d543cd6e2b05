// A status query's question to one rank.
#pragma once

#include "runtime/admin/status_query.h"
#include "runtime/link/link.h"

namespace r2ccl {

// Sends the question, unless no answer can be expected from the rank. As StatusQuery::Ask.
Reachability ask_by_notice(Link& link, Notice notice);

}  // namespace r2ccl
