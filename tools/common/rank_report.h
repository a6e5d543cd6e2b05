// Reads the ranks' r2cclCommReport texts, which docs/report.md describes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace r2ccl::tools {

// Keeps the order of the fields.
using Json = nlohmann::ordered_json;

// Returns the reports that are JSON objects. A rank of an older library may have none.
std::vector<Json> parse_reports(const std::vector<std::string>& reports);

// Return the value of a field; an absent one is an empty array, an empty text or 0.
Json report_array(const Json& report, const char* field);
std::string report_text(const Json& object, const char* field);
uint64_t report_number(const Json& object, const char* field);

// Returns the verdicts of all reports. Every report may list every verdict; each appears once.
Json merged_verdicts(const std::vector<Json>& reports);

// Returns one line for each verdict in the reports.
std::vector<std::string> verdict_lines(const std::vector<std::string>& reports);

}  // namespace r2ccl::tools
