// The text of `r2ccl status`, made from the answers of the ranks. Every value may come from another
// user's process: a missing value, or one of another type, counts as empty, and no control
// character reaches the terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace r2ccl::tools {

// Adds tx_MBps and rx_MBps to each NIC of `job`'s members: the rate since `before`.
void add_rates(const nlohmann::json& before, nlohmann::json* job);

// Returns the text of one job. `whole`: also the healthy ranks of a large one.
std::string job_text(const nlohmann::json& job, bool whole);

// Returns the paths of one rank, from its report.
std::string paths_text(const nlohmann::json& report);

// Returns one line of JSON in ASCII, without control characters.
std::string json_line(const nlohmann::json& value);

}  // namespace r2ccl::tools
