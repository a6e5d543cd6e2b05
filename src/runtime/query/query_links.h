// Carries the questions and answers of a RankQuery as notices.
#pragma once

#include "runtime/engine/members.h"
#include "runtime/query/rank_query.h"

namespace r2ccl {

// `members` must outlive the result.
RankQuery::Callbacks query_links(Members& members);

}  // namespace r2ccl
