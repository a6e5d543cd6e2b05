// The text of `r2ccl status` for a process of NCCL with r2ccl's net plugin. As status_view.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace r2ccl::tools {

bool is_nccl(const nlohmann::json& answer);
std::string nccl_text(const nlohmann::json& process);

}  // namespace r2ccl::tools
