// The options that the commands of `r2ccl plan` share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace r2ccl::tools {

// Bounds of a plan that is shown: it and its proof take up to 1 KB for each step.
inline constexpr int kRanksShownMax = 256;
inline constexpr size_t kStepsShownMax = 1'000'000;

// The facts of a call that follow neither from its collective nor from its algorithm.
struct CallOptions {
  std::optional<uint64_t> count;
  std::string type = "float32";
  int root = 0;
  std::string hosts;
  std::string view;
  std::string losses;
  std::string memory_costs = to_string(PlanCosts().memory);
  std::string network_costs;  // empty: the defaults for as many ranks as a host has
};
void add_call_options(CLI::App* command, CallOptions* options);

// Sets the facts in `key`. Requires its number of ranks.
Status apply(const CallOptions& options, PlanKey& key);

struct OutputOptions {
  int rank = -1;
  bool json = false;
  bool text = false;
  std::string svg;
};
std::vector<CLI::Option*> add_output_options(CLI::App* command, OutputOptions* options);

}  // namespace r2ccl::tools
