// The metrics of `r2ccl status --prometheus`, made from the reports of the ranks on this host.
// docs/metrics.md lists them. Every value may come from another user's process: a missing value, or
// one of another type, gives no sample.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tools/admin/status_client.h"

namespace r2ccl::tools {

struct RankAnswer {
  StatusSocketFile file;
  nlohmann::json report;  // null: the rank gave no answer
};

std::string metrics_of(std::span<const RankAnswer> answers);

}  // namespace r2ccl::tools
