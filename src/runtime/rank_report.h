// The JSON text of r2cclCommReport, and those parts of it that `r2ccl status` shows too.
// docs/report.md describes the fields.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_writer.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

std::string report_text(RankRuntime& rank);

// Fields of an object that has begun:
// The rank, its job and how it is.
void write_identity(JsonWriter& out, RankRuntime& rank);
// The latest `count_max` verdicts, oldest first.
void write_verdicts(JsonWriter& out, RankRuntime& rank, size_t count_max);

}  // namespace r2ccl
