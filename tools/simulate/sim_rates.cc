#include "tools/simulate/sim_rates.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/trial/rate_trial.h"
#include "tools/common/output_file.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;

struct RatesOptions {
  int hosts = 0;
  int nics = 0;
  uint64_t mbit = 0;
  int latency_us = 0;
  uint64_t megabytes = 32;
  std::string json_path;
};

struct NetworkRow {
  RateTrial trial;
  RateOutcome outcome;
};

std::string digits(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", ratio);
  return text;
}

class Rates {
 public:
  explicit Rates(RatesOptions options) : options_(std::move(options)) {}

  int run() {
    if (const Status can = check_writable("--json", options_.json_path); !can.ok()) {
      return report_error("sim rates", can);
    }
    for (RateTrial& trial : all_rate_trials()) {
      if (!wanted(trial)) continue;
      trial.bytes = options_.megabytes << 20;
      rows_.push_back({trial, sim::run(trial)});
      std::fprintf(stderr, "\r%zu networks measured", rows_.size());
    }
    std::fprintf(stderr, "\n");
    std::ranges::stable_sort(rows_, std::ranges::greater{},
                             [](const NetworkRow& row) { return row.outcome.median(); });
    return conclude();
  }

 private:
  bool wanted(const RateTrial& trial) const {
    return (options_.hosts == 0 || options_.hosts == trial.hosts) &&
           (options_.nics == 0 || options_.nics == trial.nics) &&
           (options_.mbit == 0 || options_.mbit == trial.mbit) &&
           (options_.latency_us == 0 || options_.latency_us * kMicrosecond == trial.latency);
  }

  int conclude() {
    std::vector<TextRow> text = {{"network", "median", "first", "second", "third"}};
    json rows = json::array();
    size_t failed = 0;
    for (const NetworkRow& row : rows_) {
      const std::vector<double>& ratios = row.outcome.ratios;
      if (!row.outcome.error.empty()) {
        ++failed;
        std::printf("%s: %s\n", describe(row.trial).c_str(), row.outcome.error.c_str());
        continue;
      }
      text.push_back({describe(row.trial), digits(row.outcome.median()), digits(ratios[0]),
                      digits(ratios[1]), digits(ratios[2])});
      rows.push_back({{"hosts", row.trial.hosts},
                      {"nics", row.trial.nics},
                      {"mbit", row.trial.mbit},
                      {"latency_us", row.trial.latency / kMicrosecond},
                      {"bytes", row.trial.bytes},
                      {"median", row.outcome.median()},
                      {"operations", ratios}});
    }
    std::printf("%s%zu networks; failed: %zu\n", layout(text).c_str(), rows_.size(), failed);
    if (!options_.json_path.empty()) {
      const Status written = write_text(options_.json_path, json{{"rows", rows}}.dump(1) + "\n");
      if (!written.ok()) return report_error("sim rates", written);
    }
    return failed == 0 ? 0 : kExitFailed;
  }

  const RatesOptions options_;
  std::vector<NetworkRow> rows_;
};

}  // namespace

void add_sim_rates(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand(
      "rates", "AllReduce on networks of 0.25 to 100 Gbit/s: its time over the least possible");
  auto options = std::make_shared<RatesOptions>();
  command->add_option("--hosts", options->hosts, "Only networks with so many hosts (2, 4)");
  command->add_option("--nics", options->nics, "Only networks with so many NICs a host (1 to 4)");
  command->add_option("--mbit", options->mbit, "Only NICs of this rate (250 to 100000)")
      ->type_name("MBIT/S");
  command->add_option("--latency", options->latency_us, "Only this one-way latency (5, 50)")
      ->type_name("US");
  command->add_option("--megabytes", options->megabytes, "The size of an AllReduce")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--json", options->json_path, "Write the times into this file, too")
      ->type_name("FILE");
  command->footer(
      "The least time is that of the payload on the line, plus the latency of a ring's steps. The\n"
      "worst network comes first. The median leaves out the first three operations.");
  command->callback([options, action] { *action = [options] { return Rates(*options).run(); }; });
}

}  // namespace r2ccl::tools
