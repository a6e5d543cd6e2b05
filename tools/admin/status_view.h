// What `r2ccl status` prints, from what the ranks said. Every value may come from another user's
// process: what is missing or of another type counts as empty, and nothing reaches the terminal
// that it would obey.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace r2ccl::tools {

// Adds tx_MBps and rx_MBps to each NIC of `job`'s members: what passed since `before` did.
void add_rates(const nlohmann::json& before, nlohmann::json* job);

// One job; `whole`: also the ranks of a large one on which there is nothing to see.
std::string job_text(const nlohmann::json& job, bool whole);

// The paths of one rank, from its report.
std::string paths_text(const nlohmann::json& report);

// One line of JSON, in ASCII: a terminal obeys no character of it.
std::string json_line(const nlohmann::json& value);

}  // namespace r2ccl::tools
