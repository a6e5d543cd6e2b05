// A survey's question to one rank.
#pragma once

#include "runtime/admin/job_survey.h"
#include "runtime/link/link.h"

namespace r2ccl {

// Sends it, unless nothing can be expected from there; as JobSurvey::Ask.
Presence ask_by_notice(Link& link, Notice notice);

}  // namespace r2ccl
