// The metrics of `r2ccl status --prometheus`, made from the reports of the ranks on this host.
// docs/metrics.md lists them. Every value may come from another user's process: a missing value, or
// one of another type, gives no sample.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "schema/field.h"
#include "tools/admin/status_client.h"
#include "tools/common/metrics_text.h"

namespace r2ccl::tools {

struct RankAnswer {
  StatusSocketFile file;
  nlohmann::json report;  // null: the rank gave no answer
};

// Returns the families of all metrics.
std::span<const MetricFamily> metric_families();
// Returns those of the fields that are metrics.
std::vector<MetricFamily> families_of(std::span<const schema::Row> rows);
// Adds the fields of an object that are metrics. Requires their families.
void add_fields(MetricsText& out, std::span<const schema::Row> rows, const MetricLabels& labels,
                const nlohmann::json& object);

std::string metrics_of(std::span<const RankAnswer> answers);

}  // namespace r2ccl::tools
