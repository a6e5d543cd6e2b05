// Cells and lines that the views of a job and of an NCCL process share. Values may come from
// another user's process, as in status_view.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/common/text_table.h"

namespace r2ccl::tools {

std::string number_text(double value, int digits);
std::string count_text(const nlohmann::json& object, const char* field);
std::string duration_text(double ms);
// Returns "2 of 3", with the drained ones, for a NIC or a link.
std::string paths_up_text(const nlohmann::json& object);
std::string nic_state(const nlohmann::json& nic);
// Returns "-" while there is no earlier answer.
std::string rate_text(const nlohmann::json& object, const char* field);
std::string loss_text(const nlohmann::json& object);

// The columns of a NIC.
TextRow nic_titles();
TextRow nic_cells(const nlohmann::json& nic);

// Returns the last faults. `sound`: nothing else is wrong either.
std::string verdicts_text(const nlohmann::json& job, bool sound);

}  // namespace r2ccl::tools
