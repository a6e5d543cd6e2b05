// What the ranks of a job answered about a NIC that is taken out of service. Values may come from
// another user's process: what is missing or of another type counts as nothing known.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace r2ccl::tools {

// Why there is no answer of the ranks, in words and what it is about ("host", "nic", ...); empty:
// there is one.
struct DrainProblem {
  std::string why;
  std::string unknown;
};
DrainProblem drain_problem(const nlohmann::json& answer);

struct DrainSums {
  double ranks = 0;  // that have paths to or from the NIC
  double paths = 0;  // each is counted once
  double up = 0;
};
DrainSums drain_sums(const nlohmann::json& answer);

// Why the NIC is not out of service yet (undo: not back in it), a line for each rank; empty: it is.
// A rank that has left the job or died is in nobody's way.
std::vector<std::string> drain_obstacles(const nlohmann::json& answer, bool undo);

// The links that would be left without a path in service, a line for each rank that has some. Of a
// NIC that has been taken out of service already nothing more can be refused.
std::vector<std::string> drain_stranded(const nlohmann::json& answer);

// After a drain was taken back: the ranks of the NIC's host that have it out of service all the
// same, or do not answer, a line for each.
std::vector<std::string> drain_kept(const nlohmann::json& answer);

}  // namespace r2ccl::tools
