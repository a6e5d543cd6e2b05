// `r2ccl sim`: runs the engine on a simulated network, where one seed gives one run.
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "sim/trial/coverage.h"
#include "sim/trial/trial.h"
#include "tools/common/command.h"
#include "tools/common/output_file.h"
#include "tools/common/text_table.h"
#include "tools/simulate/scenario_file.h"
#include "tools/simulate/sim_json.h"
#include "tools/simulate/sim_losses.h"
#include "tools/simulate/sim_mutants.h"
#include "tools/simulate/sim_plan.h"
#include "tools/simulate/sim_pool.h"
#include "tools/simulate/sim_rates.h"
#include "tools/simulate/sim_serving.h"
#include "tools/simulate/sim_svg.h"
#include "tools/simulate/sim_training.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr double kProgressSeconds = 2;
constexpr size_t kFailuresShown = 20;

// --- fuzz ---

struct FuzzOptions {
  std::string seeds = "1..1000";
  int jobs = 0;
  bool twice = false;
  bool until_found = false;
  double seconds_max = 0;  // 0: no bound
  uint64_t at_least = 1;   // the first of the seeds, which run whatever time they take
  std::string mutant = "none";
  std::string json_path;
};

// Parses "A..B", or one number.
bool parse_seeds(const std::string& text, SimPoolOptions& out) {
  static const std::regex kRange(R"((\d{1,18})(?:\.\.(\d{1,18}))?)");
  std::smatch match;
  if (!std::regex_match(text, match, kRange)) return false;
  out.first = std::stoull(match[1]);
  out.last = match[2].matched ? std::stoull(match[2]) : out.first;
  return out.first <= out.last;
}

class Fuzz {
 public:
  explicit Fuzz(FuzzOptions options) : options_(std::move(options)) {}

  int run() {
    const auto mutant = mutant_named(options_.mutant);
    if (!mutant.ok()) return report_error("sim fuzz", mutant.status());
    if (!parse_seeds(options_.seeds, pool_)) {
      return report_error("sim fuzz", {Code::invalid_argument,
                                       "--seeds " + options_.seeds + ": write A..B, with A <= B"});
    }
#ifndef R2CCL_MUTANTS
    if (mutant.value() != Mutant::none) {
      return report_error("sim fuzz", {Code::invalid_argument,
                                       "this build has no mutants: configure it with "
                                       "-DR2CCL_MUTANTS=ON (`make mutants` does)"});
    }
#endif
    if (const Status can = check_writable("--json", options_.json_path); !can.ok()) {
      return report_error("sim fuzz", can);
    }
    pool_.mutant = mutant.value();
    pool_.workers = options_.jobs;
    pool_.twice = options_.twice;
    began_ = SteadyClock::now();
    const Status done = run_seeds(pool_, [this](const SeedOutcome& o) { return take(o); });
    if (!done.ok()) return report_error("sim fuzz", done);
    return conclude();
  }

 private:
  bool take(const SeedOutcome& outcome) {
    ++seeds_;
    simulated_s_ += outcome.simulated_s;
    resent_ += outcome.resent > 0 ? 1 : 0;
    for (const std::string& what : outcome.covered) ++covered_[what];
    if (!outcome.violation.empty()) failures_.push_back(outcome);
    if (!outcome.violation.empty() && failures_.size() <= kFailuresShown) show(outcome);
    show_progress();
    if (outcome.seed - pool_.first < options_.at_least) ++first_done_;
    return (failures_.empty() || !options_.until_found) && !is_late();
  }

  // Whether the time is over, and the seeds that must run have run.
  bool is_late() const {
    return options_.seconds_max > 0 && seconds() >= options_.seconds_max &&
           first_done_ >= options_.at_least;
  }

  void show(const SeedOutcome& outcome) const {
    const std::string mutant = pool_.mutant == Mutant::none ? "" : " --mutant " + options_.mutant;
    std::printf("seed %llu: %s\n  r2ccl sim replay%s %llu\n",
                static_cast<unsigned long long>(outcome.seed), outcome.violation.c_str(),
                mutant.c_str(), static_cast<unsigned long long>(outcome.seed));
    std::fflush(stdout);
  }

  double seconds() const {
    return std::chrono::duration<double>(SteadyClock::now() - began_).count();
  }

  void show_progress() {
    const double now = seconds();
    if (now - shown_at_ < kProgressSeconds) return;
    shown_at_ = now;
    const uint64_t all = pool_.last - pool_.first + 1;
    std::fprintf(stderr, "[%4.0f s] %llu of %llu seeds, %zu failed, %.0f s left\n", now,
                 static_cast<unsigned long long>(seeds_), static_cast<unsigned long long>(all),
                 failures_.size(),
                 now / static_cast<double>(seeds_) * static_cast<double>(all - seeds_));
  }

  int conclude() const {
    std::vector<TextRow> rows;
    for (const auto& [what, seeds] : covered_) {
      if (!what.starts_with(kChecked)) rows.push_back({what, std::to_string(seeds)});
    }
    std::printf("Events, and the number of seeds that had each:\n%s", layout(rows).c_str());
    std::printf(
        "%llu seeds in %.1f s (%.0f s simulated), %llu with chunks sent again, %zu failed\n",
        static_cast<unsigned long long>(seeds_), seconds(), simulated_s_,
        static_cast<unsigned long long>(resent_), failures_.size());
    if (!options_.json_path.empty()) {
      const Status written = write_text(options_.json_path, to_json().dump(1) + "\n");
      if (!written.ok()) return report_error("sim fuzz", written);
    }
    return failures_.empty() ? 0 : kExitFailed;
  }

  json to_json() const {
    json failed = json::array();
    for (const SeedOutcome& one : failures_) {
      failed.push_back({{"seed", one.seed}, {"violation", one.violation}});
    }
    return {{"first", pool_.first},    {"last", pool_.last},   {"mutant", options_.mutant},
            {"seeds", seeds_},         {"seconds", seconds()}, {"simulated_s", simulated_s_},
            {"resent_seeds", resent_}, {"covered", covered_},  {"failed", failed}};
  }

  const FuzzOptions options_;
  SimPoolOptions pool_;
  SteadyClock::time_point began_;
  double shown_at_ = 0;
  uint64_t seeds_ = 0;
  uint64_t first_done_ = 0;  // of the seeds that must run
  uint64_t resent_ = 0;
  double simulated_s_ = 0;
  std::map<std::string, uint64_t> covered_;
  std::vector<SeedOutcome> failures_;
};

// --- replay and run ---

struct ShowOptions {
  uint64_t seed = 0;
  std::string file;
  std::string mutant = "none";
  std::string svg_path;
  std::string toml_path;
  std::string json_path;
};

void print_timeline(const Scenario& scenario, const TrialResult& result) {
  std::printf("%s\n", describe(scenario).c_str());
  for (const TrialNote& note : result.notes) {
    std::printf("%12.3f ms  %s\n", static_cast<double>(note.at) / 1e6, note.text.c_str());
  }
  std::printf(
      "%llu operations, %llu elements checked, %llu chunks, %llu sent again, %llu "
      "duplicates; %.3f s simulated, trace %016llx\n",
      static_cast<unsigned long long>(result.operations),
      static_cast<unsigned long long>(result.elements),
      static_cast<unsigned long long>(result.seen.chunks),
      static_cast<unsigned long long>(result.seen.resent),
      static_cast<unsigned long long>(result.seen.duplicates),
      static_cast<double>(result.simulated) / 1e9,
      static_cast<unsigned long long>(result.trace_hash));
  for (const std::string& violation : result.violations) {
    std::printf("VIOLATED at %s\n", violation.c_str());
  }
  if (result.violations.empty()) std::puts("all rules were kept");
}

int show(const char* command, const Scenario& scenario, const ShowOptions& options,
         const std::string& title) {
  const auto mutant = mutant_named(options.mutant);
  if (!mutant.ok()) return report_error(command, mutant.status());
#ifdef R2CCL_MUTANTS
  if (mutant.value() != Mutant::none) active_mutant = mutant.value();
#endif
  for (const auto& [option, path] :
       {std::pair<const char*, const std::string&>("--svg", options.svg_path),
        {"--toml", options.toml_path},
        {"--json", options.json_path}}) {
    if (const Status can = check_writable(option, path); !can.ok()) {
      return report_error(command, can);
    }
  }
  if (!options.toml_path.empty()) {
    const Status written = write_text(options.toml_path, to_toml(scenario));
    if (!written.ok()) return report_error(command, written);
  }
  const TrialResult result = run_trial(scenario, true);
  print_timeline(scenario, result);
  if (!options.svg_path.empty()) {
    const Status written = write_text(options.svg_path, draw_trial(scenario, result, title));
    if (!written.ok()) return report_error(command, written);
  }
  if (!options.json_path.empty()) {
    const Status written = write_text(options.json_path, trial_json(result));
    if (!written.ok()) return report_error(command, written);
  }
  return result.violations.empty() ? 0 : kExitFailed;
}

void add_output_options(CLI::App* command, ShowOptions& options) {
  command->add_option("--svg", options.svg_path, "Draw the run into this file")->type_name("FILE");
  command->add_option("--json", options.json_path, "Write the result into this file, too")
      ->type_name("FILE");
  command->add_option("--mutant", options.mutant, "Break this rule (builds with mutants only)")
      ->type_name("NAME");
}

void add_fuzz(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand("fuzz", "Run many seeds, and show those that fail");
  auto options = std::make_shared<FuzzOptions>();
  command->add_option("--seeds", options->seeds, "these seeds")
      ->type_name("A..B")
      ->capture_default_str();
  command->add_option("-j,--jobs", options->jobs, "Processes (default: one for each processor)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--twice", options->twice, "Run each seed twice: both must be the same run");
  command->add_flag("--until-found", options->until_found, "Stop at the first seed that fails");
  command->add_option("--seconds", options->seconds_max, "Stop after this time (default: run all)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("S");
  command
      ->add_option("--at-least", options->at_least,
                   "With --seconds: run this many of the first seeds, whatever time they take")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--mutant", options->mutant,
                   "Break this rule (builds with mutants only); `r2ccl sim mutants` lists them")
      ->type_name("NAME");
  command->add_option("--json", options->json_path, "Write the outcome into this file")
      ->type_name("FILE");
  command->footer("Exit status: 0; 1 when a seed fails; 2 on an error.");
  command->callback([options, action] { *action = [options] { return Fuzz(*options).run(); }; });
}

void add_replay(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand("replay", "Run one seed, and show its events");
  auto options = std::make_shared<ShowOptions>();
  command->add_option("SEED", options->seed, "The seed")->required();
  command->add_option("--toml", options->toml_path, "Write its scenario into this file")
      ->type_name("FILE");
  add_output_options(command, *options);
  command->callback([options, action] {
    *action = [options] {
      return show("sim replay", scenario_of(options->seed), *options,
                  "seed " + std::to_string(options->seed));
    };
  });
}

void add_run(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand("run", "Run a scenario from a TOML file");
  auto options = std::make_shared<ShowOptions>();
  command->add_option("FILE", options->file, "The file")->required();
  add_output_options(command, *options);
  command->footer(
      "`r2ccl sim replay SEED --toml FILE` writes one to begin with; docs/simulation.md\n"
      "lists its fields.");
  command->callback([options, action] {
    *action = [options] {
      const auto scenario = read_scenario(options->file);
      if (!scenario.ok()) return report_error("sim run", scenario.status());
      return show("sim run", scenario.value(), *options, options->file);
    };
  });
}

}  // namespace

void add_sim_command(CLI::App* app, Action* action) {
  CLI::App* sim =
      app->add_subcommand("sim", "Run the engine on a simulated network: seeds, scenarios, faults");
  sim->require_subcommand(1);
  add_fuzz(sim, action);
  add_replay(sim, action);
  add_run(sim, action);
  add_sim_plan(sim, action);
  add_sim_training(sim, action);
  add_sim_serving(sim, action);
  add_sim_losses(sim, action);
  add_sim_rates(sim, action);
  sim->add_subcommand("mutants", "List the rules that a build with mutants can break")
      ->callback([action] { *action = list_mutants; });
}

}  // namespace r2ccl::tools
