// The answers of a job's ranks about a NIC that is taken out of service. Values may come from
// another user's process: a missing value, or one of another type, counts as unknown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace r2ccl::tools {

// The reason why the ranks gave no answer, in words, and its subject ("host", "nic", ...). Empty if
// there is an answer.
struct DrainProblem {
  std::string why;
  std::string unknown;
};
DrainProblem drain_problem(const nlohmann::json& answer);

struct DrainSums {
  double ranks = 0;  // ranks with paths to or from the NIC
  double paths = 0;  // each is counted once
  double up = 0;
};
DrainSums drain_sums(const nlohmann::json& answer);

// Returns the reasons why the NIC is not out of service yet (undo: not back in it), a line for each
// rank; empty if it is. A rank that has left the job or died is no obstacle.
std::vector<std::string> drain_obstacles(const nlohmann::json& answer, bool undo);

// Returns the links that the drain would leave without a path in service, a line for each rank that
// has such links. Empty if the NIC is already out of service: then no rank can refuse.
std::vector<std::string> drain_stranded(const nlohmann::json& answer);

// Call after a drain was taken back. Returns a line for each rank of the NIC's host that still has
// it out of service or does not answer.
std::vector<std::string> drain_kept(const nlohmann::json& answer);

}  // namespace r2ccl::tools
